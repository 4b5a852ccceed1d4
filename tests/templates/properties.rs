//! The differences between two templates turn one into the other, and there are none if both mean the same.

use kubectl_ds::difference::change_summary::in_a_few_words;
use kubectl_ds::difference::difference;
use kubectl_ds::model::template::Template;
use kubectl_ds::model::template_types::PodTemplateSpec;
use kubectl_ds::report::change::{Change, Op, PathStep};
use proptest::prelude::*;
use serde_json::Value;

use super::apply::apply;
use crate::support::random::Random;
use crate::support::sampling::cases;
use crate::support::template_generator::{Taste, edited, moved, template};

/// Two templates of which one is often an edited form of the other, as the seed decides.
fn pair(seed: u64) -> (Value, Value) {
    let mut random = Random::new(seed);
    let taste = *random.pick(&[Taste::Readable, Taste::Unknown, Taste::Broken]);
    let from = template(&mut random, taste);
    let mut to = edited(&mut random, &from, taste);
    if random.percent(50) {
        to = moved(&mut random, &PodTemplateSpec, &to);
    }
    (from, to)
}

fn changes(from: &Value, to: &Value) -> Vec<Change> {
    difference(&Template::new(from.clone()), &Template::new(to.clone()))
}

/// Returns what two ways have in common, in an order of its own; how the other way puts a list in order is its own.
fn without_direction(changes: &[Change], back: bool) -> Vec<String> {
    let mut texts: Vec<String> = changes
        .iter()
        .filter(|change| change.path.0.last() != Some(&PathStep::Order))
        .map(|change| {
            let (from, to) = if back { (&change.to, &change.from) } else { (&change.from, &change.to) };
            format!("{} {from:?} {to:?}", change.path)
        })
        .collect();
    texts.sort();
    texts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_lead_from_one_template_to_the_other(seed: u64) {
        let (from, to) = pair(seed);
        let changes = changes(&from, &to);
        let (from, to) = (Template::new(from), Template::new(to));
        let reached = apply(&from, &changes);
        prop_assert!(reached.same_meaning(&to), "{from:?}\n{to:?}\n{changes:?}\n{:?}", difference(&reached, &to));
    }

    #[test]
    fn there_is_a_difference_exactly_where_the_meaning_differs(seed: u64) {
        let (from, to) = pair(seed);
        prop_assert_eq!(changes(&from, &from), []);
        let same = Template::new(from.clone()).same_meaning(&Template::new(to.clone()));
        prop_assert_eq!(changes(&from, &to).is_empty(), same);
    }

    #[test]
    fn moving_the_entries_of_a_list_is_no_difference_where_their_order_means_nothing(seed: u64) {
        let (from, _) = pair(seed);
        let to = moved(&mut Random::new(seed), &PodTemplateSpec, &from);
        prop_assert_eq!(changes(&from, &to), []);
        prop_assert!(Template::new(from).same_meaning(&Template::new(to)));
    }

    #[test]
    fn the_way_back_is_the_mirror_of_the_way(seed: u64) {
        let (from, to) = pair(seed);
        let (there, back) = (changes(&from, &to), changes(&to, &from));
        prop_assert_eq!(without_direction(&there, false), without_direction(&back, true));
    }

    #[test]
    fn the_operation_says_which_values_there_are(seed: u64) {
        let (from, to) = pair(seed);
        for change in changes(&from, &to) {
            let expected = match (&change.from, &change.to) {
                (None, Some(_)) => Op::Add,
                (Some(_), None) => Op::Remove,
                (Some(from), Some(to)) if from != to => Op::Replace,
                _ => panic!("{change:?} changes nothing"),
            };
            prop_assert_eq!(change.op, expected);
        }
    }

    #[test]
    fn the_normal_form_is_a_spelling_of_the_template_that_stays_as_it_is(seed: u64) {
        let template = Template::new(pair(seed).1);
        let normal = Template::new(template.normal());
        prop_assert_eq!(normal.value(), &template.normal());
        prop_assert_eq!(normal.normal(), template.normal());
        prop_assert!(normal.same_meaning(&template));
    }

    #[test]
    fn a_few_words_are_said_of_any_change(seed: u64) {
        let (from, to) = pair(seed);
        let changes = changes(&from, &to);
        let words = in_a_few_words(&changes);
        prop_assert_eq!(words.is_empty(), changes.is_empty());
        prop_assert!(words.iter().all(|words| !words.is_empty()), "{words:?}");
    }
}

#[test]
fn the_pairs_differ_in_few_and_in_many_ways() {
    let counts: Vec<usize> = (0..300).map(pair).map(|(from, to)| changes(&from, &to).len()).collect();
    let share = |range: std::ops::Range<usize>| counts.iter().filter(|count| range.contains::<usize>(count)).count();
    assert!(share(0..1) > 10 && share(1..4) > 20 && share(4..20) > 50 && share(20..10_000) > 10, "{counts:?}");
}
