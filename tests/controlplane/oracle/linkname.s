// This file lets functions without a body be declared in manage.go.
