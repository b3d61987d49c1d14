//! Files of custom pages (styles, pictures, fonts): held in memory and answered outside every room, so that a page that
//! visitors see while they wait never costs a place, a cookie or a request to the origin. Reads no files and opens no sockets.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use http::{Method, StatusCode};
use sha2::{Digest as _, Sha256};

/// For how long browsers keep a file without asking again: a waiting page that refreshes fetches nothing twice, and a new
/// file is seen within minutes.
const CACHE_CONTROL_FILES: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// Below which path the files are, and what they hold. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PageAssets {
    /// Begins and ends with `/`.
    path: Arc<str>,
    /// By name below the path, such as `img/logo.svg`.
    files: Arc<HashMap<String, Asset>>,
}

#[derive(Debug)]
struct Asset {
    content_type: HeaderValue,
    etag: HeaderValue,
    content: Bytes,
}

/// An answer of the gate's own to a request for a file.
#[derive(Debug)]
pub struct AssetAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl PageAssets {
    /// The path has to begin and end with `/`; names are those of the files below it.
    pub fn new(path: &str, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let files = files
            .into_iter()
            .map(|(name, content)| {
                let asset = Asset::new(&name, content);
                (name, asset)
            })
            .collect();
        Self {
            path: Arc::from(path),
            files: Arc::new(files),
        }
    }

    /// Whether a request for this path, as it was sent and without its query, is for one of the files or a missing one.
    pub fn covers(&self, path: &[u8]) -> bool {
        path.starts_with(self.path.as_bytes())
    }

    /// The answer to a request that [`Self::covers`]; `None` for any other. A name that is not there is 404 and never reaches
    /// the origin, so no spelling of a path leads past a room.
    pub fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<AssetAnswer> {
        let name = path.strip_prefix(&*self.path)?;
        Some(match self.files.get(name) {
            None => plain(StatusCode::NOT_FOUND, "no such file\n"),
            Some(_) if method != Method::GET && method != Method::HEAD => {
                let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
                answer
                    .headers
                    .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
            Some(asset) => asset.answer(headers),
        })
    }
}

impl Asset {
    fn new(name: &str, content: Vec<u8>) -> Self {
        let mut etag = String::from("\"");
        for byte in &Sha256::digest(&content)[..16] {
            write!(etag, "{byte:02x}").expect("a String takes everything");
        }
        etag.push('"');
        Self {
            content_type: content_type(name),
            etag: HeaderValue::try_from(etag).expect("hexadecimal digits in quotes"),
            content: Bytes::from(content),
        }
    }

    fn answer(&self, request: &HeaderMap) -> AssetAnswer {
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, self.etag.clone());
        headers.insert(CACHE_CONTROL, CACHE_CONTROL_FILES);
        headers.insert(
            HeaderName::from_static("x-content-type-options"),
            HeaderValue::from_static("nosniff"),
        );
        if self.is_known_to(request) {
            return AssetAnswer {
                status: StatusCode::NOT_MODIFIED,
                headers,
                body: Bytes::new(),
            };
        }
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        AssetAnswer {
            status: StatusCode::OK,
            headers,
            body: self.content.clone(),
        }
    }

    fn is_known_to(&self, request: &HeaderMap) -> bool {
        request
            .get_all(IF_NONE_MATCH)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .map(|tag| tag.strip_prefix(b"W/").unwrap_or(tag))
            .any(|tag| tag == b"*" || tag == self.etag.as_bytes())
    }
}

/// By the name's extension. Text is UTF-8.
fn content_type(name: &str) -> HeaderValue {
    let kind = mime_guess::from_path(name).first_or_octet_stream();
    let is_text = kind.type_() == mime_guess::mime::TEXT
        || kind.subtype() == mime_guess::mime::JAVASCRIPT
        || kind.subtype() == mime_guess::mime::JSON;
    let text = if is_text {
        format!("{}; charset=utf-8", kind.essence_str())
    } else {
        kind.essence_str().to_owned()
    };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

fn plain(status: StatusCode, text: &'static str) -> AssetAnswer {
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, super::CACHE_CONTROL_NEVER);
    AssetAnswer {
        status,
        headers,
        body: Bytes::from_static(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assets() -> PageAssets {
        let files = [("style.css", "a{}"), ("img/logo.svg", "<svg/>")];
        PageAssets::new(
            "/__waitingroom/",
            files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())),
        )
    }

    fn get(path: &str, headers: &HeaderMap) -> Option<AssetAnswer> {
        assets().answer(&Method::GET, path, headers)
    }

    #[test]
    fn a_file_is_answered_with_its_type_and_once_only() {
        let first = get("/__waitingroom/style.css", &HeaderMap::new()).unwrap();
        assert_eq!(first.status, StatusCode::OK);
        assert_eq!(first.headers[CONTENT_TYPE], "text/css; charset=utf-8");
        assert_eq!(first.body, "a{}");
        let tag = first.headers[ETAG].to_str().unwrap();
        for known in [tag, &format!("\"other\", W/{tag}"), "*"] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::try_from(known).unwrap());
            let again = get("/__waitingroom/style.css", &headers).unwrap();
            assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{known}");
            assert!(again.body.is_empty());
        }
        let picture = get("/__waitingroom/img/logo.svg", &HeaderMap::new()).unwrap();
        assert_eq!(picture.headers[CONTENT_TYPE], "image/svg+xml");
    }

    #[test]
    fn nothing_else_below_the_path_is_answered_with_a_file() {
        for path in [
            "/__waitingroom/",
            "/__waitingroom/missing.css",
            "/__waitingroom//style.css",
            "/__waitingroom/img/../style.css",
            "/__waitingroom/%73tyle.css",
            "/__waitingroom/img",
        ] {
            let answer = get(path, &HeaderMap::new()).unwrap();
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        }
        for path in ["/__waitingroom", "/style.css", "//__waitingroom/style.css"] {
            assert!(get(path, &HeaderMap::new()).is_none(), "{path}");
        }
    }

    #[test]
    fn files_are_only_read() {
        let answer = assets().answer(&Method::POST, "/__waitingroom/style.css", &HeaderMap::new());
        let answer = answer.unwrap();
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers[ALLOW], "GET, HEAD");
    }
}
