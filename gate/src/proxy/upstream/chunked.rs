//! Takes a chunked body apart. Pure: bytes in, pieces out.

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Longest line that may hold a chunk's size and extensions.
const SIZE_LINE_BYTES_MAX: usize = 4096;
/// Longest trailer section, and the most fields in it. A longer one is malformed.
const TRAILER_BYTES_MAX: usize = 8192;
const TRAILER_FIELDS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

/// A chunked body in the course of being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    state: State,
}

/// The next piece of a body.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// The buffer holds no whole piece.
    More,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { state: State::Size }
    }

    /// Takes the next piece out of `input`. `Err` says what is malformed.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Piece, &'static str> {
        loop {
            match self.state {
                State::Size => match httparse::parse_chunk_size(input) {
                    Ok(httparse::Status::Complete((length, size))) => {
                        input.advance(length);
                        self.state = if size == 0 {
                            State::Trailers
                        } else {
                            State::Data(size)
                        };
                    }
                    Ok(httparse::Status::Partial) if input.len() <= SIZE_LINE_BYTES_MAX => {
                        return Ok(Piece::More);
                    }
                    Ok(httparse::Status::Partial) | Err(_) => return Err("chunk size"),
                },
                State::Data(_) if input.is_empty() => return Ok(Piece::More),
                State::Data(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let left = left - here as u64;
                    self.state = if left == 0 {
                        State::DataEnd
                    } else {
                        State::Data(left)
                    };
                    return Ok(Piece::Data(input.split_to(here).freeze()));
                }
                State::DataEnd if input.len() < 2 => return Ok(Piece::More),
                State::DataEnd => {
                    if !input.starts_with(b"\r\n") {
                        return Err("chunk end");
                    }
                    input.advance(2);
                    self.state = State::Size;
                }
                State::Trailers => return self.trailers(input),
                State::Done => return Ok(Piece::End),
            }
        }
    }

    fn trailers(&mut self, input: &mut BytesMut) -> Result<Piece, &'static str> {
        if input.starts_with(b"\r\n") {
            input.advance(2);
            self.state = State::Done;
            return Ok(Piece::End);
        }
        let mut fields = [httparse::EMPTY_HEADER; TRAILER_FIELDS_MAX];
        let (length, trailers) = match httparse::parse_headers(input, &mut fields) {
            Ok(httparse::Status::Complete((length, fields))) => {
                let mut trailers = HeaderMap::with_capacity(fields.len());
                for field in fields {
                    let name = HeaderName::from_bytes(field.name.as_bytes());
                    let value = HeaderValue::from_bytes(field.value);
                    let (Ok(name), Ok(value)) = (name, value) else {
                        return Err("trailer");
                    };
                    trailers.append(name, value);
                }
                (length, trailers)
            }
            Ok(httparse::Status::Partial) if input.len() <= TRAILER_BYTES_MAX => {
                return Ok(Piece::More);
            }
            Ok(httparse::Status::Partial) | Err(_) => return Err("trailer"),
        };
        input.advance(length);
        self.state = State::Done;
        Ok(Piece::Trailers(trailers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<HeaderMap>, usize), &'static str> {
        let mut chunked = Chunked::new();
        let mut input = BytesMut::new();
        let (mut body, mut trailers) = (Vec::new(), None);
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                match chunked.next(&mut input)? {
                    Piece::Data(data) => body.extend_from_slice(&data),
                    Piece::Trailers(fields) => trailers = Some(fields),
                    Piece::End => return Ok((body, trailers, input.len())),
                    Piece::More => break,
                }
            }
        }
        Err("incomplete")
    }

    #[test]
    fn decodes_the_same_however_it_is_cut() {
        let wire = b"4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\nX-Sum: 9\r\n\r\n";
        for at in 0..wire.len() {
            let (a, b) = wire.split_at(at);
            let (body, trailers, left) = decode(&[a, b]).unwrap();
            assert_eq!(body, b"Wikipedia");
            assert_eq!(trailers.unwrap()["x-sum"], "9");
            assert_eq!(left, 0);
        }
        assert_eq!(decode(&[b"0\r\n\r\nnext"]).unwrap().2, 4);
    }

    #[test]
    fn refuses_what_is_not_a_chunked_body() {
        for wire in [
            &b"x\r\n"[..],
            b"-1\r\n",
            b"4\r\nWikiX\r\n",
            b"ffffffffffffffffff\r\n",
            b"0\r\n: novalue\r\n\r\n",
        ] {
            assert!(
                !matches!(decode(&[wire]), Ok(_) | Err("incomplete")),
                "{wire:?}"
            );
        }
        let endless = vec![b'0'; SIZE_LINE_BYTES_MAX + 1];
        assert_eq!(decode(&[&endless]).unwrap_err(), "chunk size");
    }
}
