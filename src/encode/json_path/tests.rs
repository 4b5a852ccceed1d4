//! Tests of templates.

use serde_json::{Value, json};

use super::JsonPath;

fn apply(template: &str, value: &Value) -> Result<String, String> {
    JsonPath::parse(template)?.apply(value)
}

fn store() -> Value {
    json!({
        "name": "jsonpath",
        "book": [
            {"category": "reference", "author": "Nigel Rees", "price": 8.95},
            {"category": "fiction", "author": "Evelyn Waugh", "price": 12.99},
            {"category": "fiction", "author": "Herman Melville", "price": 8.99, "sold": null},
        ],
        "bicycle": [{"color": "red", "isNew": true}, {"color": "green", "isNew": false}],
        "labels": {"engineer": 10, "web/html": 15, "k8s-app": 20, "example.com/a": "b"},
        "numbers": [0, 1, 2, 3, 4],
        "lists": [[1], [], [2]],
    })
}

/// The cases of `jsonpath_test.go` that JSON can have, and others.
#[test]
fn templates_are_applied_as_by_kubectl() {
    for (template, expected) in [
        ("hello jsonpath", "hello jsonpath"),
        ("hello {.name}", "hello jsonpath"),
        (r#"{"{"}"#, "{"),
        (r#"{"a\tb\n"}{'\''}"#, "a\tb\n'"),
        ("{.numbers}", "[0,1,2,3,4]"),
        ("{.numbers[?(@<2)]}", "0 1"),
        ("{.numbers[?(@ >= 3)]}", "3 4"),
        ("{.numbers[1,3,4]}", "1 3 4"),
        ("{.numbers[0:2]} {.numbers[:2]} {.numbers[3:]}", "0 1 0 1 3 4"),
        ("{.numbers[-1]} {.numbers[-2:]} {.numbers[::2]} {.numbers[2:2]}", "4 3 4 0 2 4 "),
        ("{.numbers[*]}", "0 1 2 3 4"),
        ("{.lists[*][*]}", "1 2"),
        ("{$.labels.web/html}", "15"),
        ("{.labels.k8s-app}", "20"),
        (r"{.labels.example\.com/a}", "b"),
        (r"{.labels['k8s-app', 'example\.com/a']}", "20 b"),
        ("{.bicycle[*].color}", "red green"),
        ("{.bicycle.*.color}", "red green"),
        (r#"{range .bicycle[*]}{ "<" }{ @.* }{ "> " }{end}"#, "<red true> <green false> "),
        ("{..price}", "8.95 12.99 8.99"),
        ("{...price}", "8.95 12.99 8.99"),
        ("{..book[2].author}", "Herman Melville"),
        ("{.bicycle[?(@.isNew==true)]}", r#"{"color":"red","isNew":true}"#),
        ("{.bicycle[?(@.isNew!=true)].color}", "green"),
        (r#"{.book[?(@.author=="Evelyn Waugh")].price}"#, "12.99"),
        ("{.book[?(@.author=='A) B')].price}", ""),
        ("{.book[?(@.sold)].author}", "Herman Melville"),
        ("{.book[2].sold}", "null"),
        ("{.book[2].sold.to}", ""),
        ("before-{.none}after {.none[0].of} {.name.of}", "before-after  "),
        (r#"{range .lists[*]}{range @[*]}{@}{","}{end}{";"}{end}end"#, "1,;;2,;end"),
        (r#"{range .bicycle[*]}{.color}{" "}"#, "red green "),
        ("{.bicycle[0]['color']}{true}{-1}{2.5}", "redtrue-12.5"),
    ] {
        assert_eq!(apply(template, &store()).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn what_is_wrong_with_a_template_is_named() {
    for (template, expected) in [
        ("{.name", "unclosed action"),
        ("{hello}", "unrecognized identifier hello"),
        ("{.labels[0]}", "an object is not an array"),
        ("{.name[?(@)]}", "\"jsonpath\" is not an array"),
        ("{.numbers[7]}", "array index out of bounds: index 7, length 5"),
        ("{.numbers[0:9]}", "array index out of bounds: index 8, length 5"),
        ("{.numbers[3:1]}", "starting index 3 is greater than ending index 1"),
        ("{.numbers[::0]}", "step must be > 0"),
        ("{.numbers[]}", "invalid array index "),
        ("{.numbers[a]}", "invalid array index a"),
        ("{.numbers[1}", "unterminated array"),
        ("{.book[?(@.price<>10)]}", "unrecognized filter operator <>"),
        ("{.book[?(@.price=='10')]}", "incompatible types for comparison"),
        ("{.book[?(@.price]}", "unterminated filter"),
        ("{.book[?(@.*=='x')]}", "can only compare one element at a time"),
        ("{range .labels.*}{@}{end}{end}", "not in range, nothing to end"),
        ("{........name}", "invalid multiple recursive descent"),
        (r#"{"x}"#, "unterminated quoted string"),
        ("{#}", "unrecognized character in action: '#'"),
    ] {
        assert_eq!(apply(template, &store()), Err(expected.to_owned()), "{template}");
    }
}

#[test]
fn values_cannot_control_a_terminal() {
    let value = json!({"a": "\u{1b}[31m\n\u{202e}b", "c": ["\u{1b}\u{e0001}", "é"]});
    let expected = "\\u{1b}[31m\n\\u{202e}b [\"\\u001b\\udb40\\udc01\",\"é\"]";
    assert_eq!(apply("{.a} {.c}", &value).as_deref(), Ok(expected));
}
