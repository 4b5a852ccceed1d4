//! Tells the end-to-end tests what they can run here, so that the others report themselves as ignored.

use std::env;

fn main() {
    for name in ["KUBECTL_DS_KRUISE", "KUBECTL_DS_KUBERNETES"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for name in ["has_kruise", "before_34", "before_36"] {
        println!("cargo::rustc-check-cfg=cfg({name})");
    }
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    if variable("KUBECTL_DS_KRUISE").is_some() {
        println!("cargo::rustc-cfg=has_kruise");
    }
    let minor = variable("KUBECTL_DS_KUBERNETES").and_then(|release| release.strip_prefix("1.")?.parse::<u32>().ok());
    for (name, bound) in [("before_34", 34), ("before_36", 36)] {
        if minor.is_some_and(|minor| minor < bound) {
            println!("cargo::rustc-cfg={name}");
        }
    }
}
