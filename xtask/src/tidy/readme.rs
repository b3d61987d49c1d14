//! The README's tables against the source: every configuration key and every metric stands in a table, and no table names one
//! that is gone.

use std::collections::BTreeSet;

use super::{Fault, File};

const README: &str = "README.md";

/// A table of names in the README, and where the source has those names.
struct Listing {
    /// What a name is called in a complaint.
    what: &'static str,
    /// The level-two heading whose tables list the names, in the first column, in backticks.
    heading: &'static str,
    /// The folder or file whose string literals hold the names.
    sources: &'static str,
    /// Parts of the names of files that hold none.
    except: &'static [&'static str],
    /// Whether a literal is such a name.
    is_name: fn(&str) -> bool,
}

const LISTINGS: [Listing; 2] = [
    Listing {
        what: "configuration key",
        heading: "Configuration",
        sources: "gate/src/config/",
        except: &["/tests/", "tests.rs", "fields.rs", "tree.rs", "error.rs"],
        is_name: is_key,
    },
    Listing {
        what: "metric",
        heading: "Metrics",
        sources: "gate/src/admin/",
        except: &[],
        is_name: is_metric,
    },
];

/// Checks every listing.
pub(super) fn check(files: &[File]) -> Vec<Fault> {
    let Some(readme) = files.iter().find(|file| file.path == README) else {
        return vec![Fault::new(README, 0, "missing")];
    };
    LISTINGS
        .iter()
        .flat_map(|listing| compare(listing, readme, files))
        .collect()
}

fn compare(listing: &Listing, readme: &File, files: &[File]) -> Vec<Fault> {
    let sources: Vec<&File> = files
        .iter()
        .filter(|file| file.path.starts_with(listing.sources) && file.path.ends_with(".rs"))
        .filter(|file| !listing.except.iter().any(|part| file.path.contains(part)))
        .collect();
    let literals: BTreeSet<&str> = sources.iter().flat_map(|file| literals(file)).collect();
    let mentioned: BTreeSet<&str> = readme.text.split('`').skip(1).step_by(2).collect();
    let undocumented = literals
        .iter()
        .filter(|name| (listing.is_name)(name) && !mentioned.contains(**name))
        .map(|name| {
            let what = format!("{} `{name}` is not mentioned", listing.what);
            Fault::new(README, 0, what)
        });
    let gone = table_names(&readme.text, listing.heading)
        .into_iter()
        .filter(|(_, name)| !literals.contains(last_part(name)))
        .map(|(line, name)| {
            let what = format!("`{name}` is no {} of the source", listing.what);
            Fault::new(README, line, what)
        });
    undocumented.chain(gone).collect()
}

/// Words with an underscore in them: keys, and words of the configuration that are as long. Single words are found the other
/// way round, by the tables.
fn is_key(literal: &str) -> bool {
    literal.contains('_')
        && !literal.starts_with('_')
        && literal
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_metric(literal: &str) -> bool {
    literal.starts_with("gate_") && is_key(literal)
}

/// `b` of `a.b`, and `b` of `--b`.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// String literals of the part before the tests, cut where a name ends.
fn literals(file: &File) -> Vec<&str> {
    let code = file
        .text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or("");
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .map(|literal| {
            let end = literal.find(['{', ' ', '\\']).unwrap_or(literal.len());
            &literal[..end]
        })
        .collect()
}

/// The first column of every table below a level-two heading, where it is in backticks, with its line.
fn table_names<'a>(readme: &'a str, heading: &str) -> Vec<(usize, &'a str)> {
    let mut inside = false;
    let mut names = Vec::new();
    for (index, line) in readme.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            inside = title.trim() == heading;
        }
        let cell = line
            .strip_prefix("| ")
            .and_then(|row| row.split('|').next());
        if let (true, Some(cell)) = (inside, cell) {
            let found = cell.split('`').skip(1).step_by(2);
            names.extend(found.map(|name| (index + 1, name)));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    fn complaints(readme: &str, source: &str) -> Vec<String> {
        let files = [
            file(README, readme),
            file("gate/src/config/room.rs", source),
        ];
        check(&files).into_iter().map(|fault| fault.what).collect()
    }

    const README_TEXT: &str =
        "## Configuration\n\n| key | what |\n| --- | --- |\n| `total_active_users` | limit |\n";

    #[test]
    fn agreement_passes() {
        let source = "read(\"total_active_users\");\n// \"not_a_key\"\n#[cfg(test)]\nmod tests {\nread(\"other_key\")";
        assert!(complaints(README_TEXT, source).is_empty());
    }

    #[test]
    fn both_directions_are_checked() {
        assert_eq!(
            complaints(README_TEXT, "read(\"new_key\")"),
            [
                "configuration key `new_key` is not mentioned",
                "`total_active_users` is no configuration key of the source"
            ]
        );
    }

    #[test]
    fn metrics_are_cut_at_their_labels() {
        let file = file("m.rs", "write!(\"gate_active_users{{room=\", x)");
        assert_eq!(literals(&file), ["gate_active_users"]);
        assert!(is_metric("gate_active_users"));
    }
}
