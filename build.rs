//! Tells the tests what they can run here, so that the others report themselves as ignored.

use std::env;

fn main() {
    for name in ["KUBECTL_DS_KRUISE", "KUBECTL_DS_KUBERNETES"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for name in ["has_kruise", "before_34", "before_36", "has_zsh", "has_fish", "has_groff"] {
        println!("cargo::rustc-check-cfg=cfg({name})");
    }
    let search: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    for program in ["zsh", "fish", "groff"] {
        if search.iter().any(|directory| directory.join(program).is_file()) {
            println!("cargo::rustc-cfg=has_{program}");
        }
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
