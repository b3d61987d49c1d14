//! Rules for the text of one file.

use super::{Fault, File};

/// A file longer than this has more than one subject.
const FILE_LINES_MAX: usize = 800;

/// How far above an unsafe block or impl its reason may begin.
const SAFETY_LINES_ABOVE: usize = 12;

// Written in two halves so that this file passes its own check.
const UNFINISHED: [&str; 7] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[ign", "ore"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
];

/// Folders that exist on one machine only.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

/// All faults of one file.
pub(crate) fn check(file: &File) -> Vec<Fault> {
    if file.path == "Cargo.lock" {
        return Vec::new();
    }
    let mut faults = whitespace(file);
    faults.extend(words(file, &MACHINE_PATHS, "names a folder of one machine"));
    if file.path.ends_with(".rs") {
        faults.extend(module(file));
        faults.extend(words(file, &UNFINISHED, "is unfinished work"));
        faults.extend(safety(file));
    }
    faults
}

fn whitespace(file: &File) -> Vec<Fault> {
    let mut faults: Vec<Fault> = lines(file)
        .filter(|(_, line)| line.ends_with([' ', '\t', '\r']))
        .map(|(number, _)| Fault::new(&file.path, number, "space at the end of the line"))
        .collect();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        faults.push(Fault::new(&file.path, 0, "no newline at the end"));
    }
    faults
}

/// A module says at its top what it is for, and is short enough to have one subject.
fn module(file: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !file.text.starts_with("//! ") {
        faults.push(Fault::new(
            &file.path,
            1,
            "must open with `//!`: what it is for and what it must not do",
        ));
    }
    let length = file.text.lines().count();
    if length > FILE_LINES_MAX {
        let what = format!("{length} lines, more than {FILE_LINES_MAX}: split it by subject");
        faults.push(Fault::new(&file.path, length, what));
    }
    faults
}

fn words(file: &File, forbidden: &[&str], why: &str) -> Vec<Fault> {
    lines(file)
        .flat_map(|(number, line)| {
            forbidden
                .iter()
                .filter(move |word| line.contains(**word))
                .map(move |word| (number, word))
        })
        .map(|(number, word)| Fault::new(&file.path, number, format!("`{word}` {why}")))
        .collect()
}

/// Every unsafe block and impl stands below a comment with its reason. Clippy checks the same where it compiles the code;
/// it never sees what is built for the kernel only.
fn safety(file: &File) -> Vec<Fault> {
    let all: Vec<&str> = file.text.lines().collect();
    let mut faults = Vec::new();
    for (index, line) in all.iter().enumerate() {
        if !is_unsafe(line) {
            continue;
        }
        let from = index.saturating_sub(SAFETY_LINES_ABOVE);
        let reasoned = all[from..=index]
            .iter()
            .any(|above| above.contains("// SAFETY:"));
        if !reasoned {
            faults.push(Fault::new(
                &file.path,
                index + 1,
                "unsafe without a `// SAFETY:` comment above it",
            ));
        }
    }
    faults
}

fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    [
        concat!("uns", "afe {"),
        concat!("uns", "afe impl"),
        concat!("uns", "afe { "),
    ]
    .iter()
    .any(|mark| code.contains(mark))
}

fn lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.text
        .split('\n')
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let file = File {
            path: "gate/src/a.rs".into(),
            text: text.into(),
        };
        check(&file).into_iter().map(|fault| fault.what).collect()
    }

    #[test]
    fn a_clean_module_passes() {
        assert!(faults("//! Says what it is for.\n\nfn a() {}\n").is_empty());
    }

    #[test]
    fn each_rule_is_checked() {
        let head = "//! A.\n";
        let long = format!("{head}{}", "\n".repeat(FILE_LINES_MAX));
        let cases = [
            ("fn a() {}\n".to_owned(), "must open"),
            (format!("{head}fn a() {{}} \n"), "space at the end"),
            (format!("{head}fn a() {{}}"), "no newline"),
            (format!("{head}{}x);\n", UNFINISHED[0]), "unfinished"),
            (format!("{head}// {}me\n", MACHINE_PATHS[0]), "one machine"),
            (
                format!("{head}{}a() }}\n", concat!("uns", "afe { ")),
                "SAFETY",
            ),
            (long, "split it"),
        ];
        for (text, expected) in cases {
            let found = faults(&text);
            assert!(
                found.iter().any(|what| what.contains(expected)),
                "{expected}: {found:?}"
            );
        }
    }

    #[test]
    fn a_reason_above_satisfies() {
        let text = format!(
            "//! A.\n// SAFETY: the pointer is ours.\n{}a() }}\n",
            concat!("uns", "afe { ")
        );
        assert!(faults(&text).is_empty());
    }
}
