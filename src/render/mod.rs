//! How reports are shown: tables, text, JSON and YAML.
