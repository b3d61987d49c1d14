//! The files of custom pages: `page_assets_folder` and `page_assets_path`. Reads them whole, so that a reload takes all of
//! them or none.

use std::fs;
use std::path::{Path, PathBuf};

use super::fields::{At, Report, Section};
use super::{Surroundings, read_limited};
use crate::page::PageAssets;

/// Where the files are when `page_assets_path` does not say.
pub const PAGE_ASSETS_PATH_DEFAULT: &str = "/__waitingroom/";
/// Most files. More are refused.
pub const PAGE_ASSETS_FILES_MAX: usize = 1_000;
/// Most bytes of all files together: they are held in memory. More are refused.
pub const PAGE_ASSETS_BYTES_MAX: usize = 67_108_864;

pub(super) fn read(section: &mut Section<'_>, around: &Surroundings<'_>) -> Option<PageAssets> {
    let report = section.report();
    let folder = section.parsed("page_assets_folder", |text| {
        if text.is_empty() || text.contains('\0') {
            Err("must be the path of a folder".to_owned())
        } else {
            Ok(around.resolve(Path::new(text)))
        }
    });
    let path = section.parsed("page_assets_path", parse_path);
    let Some(folder) = folder else {
        if let Some(path) = path {
            report.add(&path.at, "has no effect without page_assets_folder");
        }
        return None;
    };
    let mut files = Files::default();
    files.read_folder(&folder.value, "", &folder.at, report);
    let path = path.map_or_else(|| PAGE_ASSETS_PATH_DEFAULT.to_owned(), |found| found.value);
    Some(PageAssets::new(&path, files.read))
}

fn parse_path(text: &str) -> Result<String, String> {
    let is_path = text.len() > 2
        && text.starts_with('/')
        && text.ends_with('/')
        && text[1..text.len() - 1].split('/').all(is_plain_name);
    if is_path {
        Ok(text.to_owned())
    } else {
        Err("must begin and end with / and hold between them names of letters, digits, `.`, `_`, `~` and `-`, such as /__waitingroom/".to_owned())
    }
}

/// A name that has one spelling in an address and cannot be read as anything but itself.
fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte))
}

#[derive(Default)]
struct Files {
    read: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl Files {
    /// Reads what is in `folder`, `below` the first one. Stops at the first fault: it is about the folder as a whole.
    fn read_folder(&mut self, folder: &Path, below: &str, at: &At, report: &Report) -> bool {
        match self.try_folder(folder, below) {
            Ok(folders) => folders
                .iter()
                .all(|(name, path)| self.read_folder(path, name, at, report)),
            Err(problem) => {
                report.add(at, problem);
                false
            }
        }
    }

    /// Returns the folders inside.
    fn try_folder(&mut self, folder: &Path, below: &str) -> Result<Vec<(String, PathBuf)>, String> {
        let failed = |path: &Path, error: std::io::Error| {
            format!("{} cannot be read: {error}", path.display())
        };
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
            let entry = entry.map_err(|error| failed(folder, error))?;
            let path = entry.path();
            let name = entry.file_name();
            // Left behind by editors and version control; nobody means to publish them.
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let name = name.to_str().filter(|name| is_plain_name(name));
            let Some(name) = name else {
                return Err(format!(
                    "{}: names must be of letters, digits, `.`, `_`, `~` and `-`",
                    path.display()
                ));
            };
            let kind = entry.file_type().map_err(|error| failed(&path, error))?;
            let name = format!("{below}{name}");
            if kind.is_dir() {
                folders.push((format!("{name}/"), path));
            } else if kind.is_file() {
                self.read_file(name, &path)?;
            } else {
                return Err(format!(
                    "{} is neither a file nor a folder; links are not followed",
                    path.display()
                ));
            }
        }
        Ok(folders)
    }

    fn read_file(&mut self, name: String, path: &Path) -> Result<(), String> {
        if self.read.len() >= PAGE_ASSETS_FILES_MAX {
            return Err(format!("must hold at most {PAGE_ASSETS_FILES_MAX} files"));
        }
        let left = PAGE_ASSETS_BYTES_MAX - self.bytes;
        let content = read_limited(path, left)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if content.len() > left {
            return Err(format!(
                "must hold at most {PAGE_ASSETS_BYTES_MAX} bytes in all files together"
            ));
        }
        self.bytes += content.len();
        self.read.push((name, content));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_spelling() {
        for good in ["/__waitingroom/", "/a/b.c/", "/~x/"] {
            assert_eq!(parse_path(good).unwrap(), good);
        }
        for bad in [
            "", "/", "//", "a/", "/a", "/a//b/", "/../", "/a/./", "/%61/", "/a b/", "/a?/", "/ä/",
        ] {
            assert!(parse_path(bad).is_err(), "{bad}");
        }
    }
}
