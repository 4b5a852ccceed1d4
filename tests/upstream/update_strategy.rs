//! pkg/apis/apps/validation/validation_test.go

use kubectl_ds::model::daemon_set::{Flavor, RollingUpdate, UpdateStrategy};
use kubectl_ds::model::int_or_percent::IntOrPercent;

/// TestDaemonSetUpdateMaxSurge; what a row does not set is 0, as in Go.
#[test]
fn update_strategies_are_valid_as_they_are_upstream() {
    let table = [
        ("invalid: unset", "0", "0", true),
        ("invalid: zero percent", "0%", "0", true),
        ("invalid: zero", "0", "0", true),
        ("valid: one", "1", "0", false),
        ("valid: one percent", "1%", "0", false),
        ("valid: 100%", "100%", "0", false),
        ("invalid: greater than 100%", "101%", "0", true),
        ("valid: surge and unavailable set", "1%", "1%", true),
        ("invalid: surge enabled, unavailable zero percent", "0%", "0", true),
        ("invalid: surge enabled, unavailable zero", "0", "0", true),
        ("valid: surge enabled, unavailable one", "1", "0", false),
        ("valid: surge enabled, unavailable one percent", "1%", "0", false),
        ("valid: surge enabled, unavailable 100%", "100%", "0", false),
        ("invalid: surge enabled, unavailable greater than 100%", "101%", "0", true),
        ("invalid: surge enabled, surge zero percent", "0", "0%", true),
        ("invalid: surge enabled, surge zero", "0", "0", true),
        ("valid: surge enabled, surge one", "0", "1", false),
        ("valid: surge enabled, surge one percent", "0", "1%", false),
        ("valid: surge enabled, surge 100%", "0", "100%", false),
        ("invalid: surge enabled, surge greater than 100%", "0", "101%", true),
        ("invalid: surge enabled, surge and unavailable set", "1%", "1%", true),
        ("invalid: surge enabled, surge and unavailable zero percent", "0%", "0%", true),
        ("invalid: surge enabled, surge and unavailable zero", "0", "0", true),
        ("invalid: surge enabled, surge and unavailable mixed zero", "0", "0%", true),
    ];
    for (name, unavailable, surge, expect_error) in table {
        let amount = |text: &str| text.parse::<IntOrPercent>().unwrap();
        let (max_unavailable, max_surge) = (amount(unavailable), amount(surge));
        let rolling = RollingUpdate { max_unavailable, max_surge, ..RollingUpdate::default() };
        let problems = UpdateStrategy::RollingUpdate(rolling).problems(Flavor::Apps);
        assert_eq!(!problems.is_empty(), expect_error, "{name}: {problems:?}");
    }
}
