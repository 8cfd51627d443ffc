//! Opens text files, plain or gzip, without the byte order mark that some editors write.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

use crate::error::Error;

/// Opens a text file for reading, without a byte order mark at its beginning. If its name ends in
/// `.gz`, all of its gzip members are decompressed; zeros after a member are skipped.
///
/// ```no_run
/// # fn main() -> Result<(), edbatch_datasets::Error> {
/// let reader = edbatch_datasets::open("sst/test.txt.gz")?;
/// for tree in edbatch_datasets::parse_binary_trees(reader, "sst/test.txt.gz") {
///     println!("{}", tree?.len());
/// }
/// # Ok(()) }
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn BufRead + Send>, Error> {
    open_with(path, |file| file)
}

/// Like [`open`], but passes the raw file, before decompression, through another reader, for
/// example to count or hash its bytes.
pub fn open_with<R: Read + Send + 'static>(
    path: impl AsRef<Path>,
    wrap: impl FnOnce(File) -> R,
) -> Result<Box<dyn BufRead + Send>, Error> {
    let path = path.as_ref();
    let refused = |source| Error::Open { file: path.display().to_string(), source };
    let file = File::open(path).map_err(refused)?;
    // Some systems can open a folder; then the first read would fail.
    if file.metadata().map_err(refused)?.is_dir() {
        return Err(refused(io::ErrorKind::IsADirectory.into()));
    }
    let reader = BufReader::new(wrap(file));
    if path.extension().is_some_and(|extension| extension == "gz") {
        let members = Members { member: Some(GzDecoder::new(reader)), is_first: true };
        Ok(Box::new(Unmarked::new(BufReader::new(members))))
    } else {
        Ok(Box::new(Unmarked::new(reader)))
    }
}

/// A text without the byte order mark at its beginning.
struct Unmarked<R> {
    /// The first bytes, unless they are a mark, and the rest.
    text: Chain<Cursor<Vec<u8>>, R>,
    begun: bool,
}

impl<R: BufRead> Unmarked<R> {
    fn new(reader: R) -> Self {
        Unmarked { text: Cursor::new(Vec::new()).chain(reader), begun: false }
    }
}

impl<R: BufRead> BufRead for Unmarked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if !self.begun {
            let (first, rest) = self.text.get_mut();
            let (first, mut byte) = (first.get_mut(), [0]);
            // A pipe may have no further byte yet.
            while first.len() < MARK.len() && MARK.starts_with(first) && rest.read(&mut byte)? > 0 {
                first.extend(byte);
            }
            if first == MARK {
                first.clear();
            }
            self.begun = true;
        }
        self.text.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.text.consume(bytes);
    }
}

impl<R: BufRead> Read for Unmarked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

/// The decompressed members of a gzip file. As in gzip, zeros may follow a member: tapes and some
/// archives pad files with them.
struct Members<R> {
    /// The current member. `None` only while it is replaced by the next one.
    member: Option<GzDecoder<R>>,
    is_first: bool,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        /// The first byte of a member.
        const MAGIC: u8 = 0x1f;
        let garbage = || {
            let message = "trailing garbage: bytes after the compressed data that are not gzip";
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        };
        loop {
            let member = self.member.as_mut().expect("there is a current member");
            match member.read(out) {
                Ok(0) => {}
                Err(error)
                    if error.kind() != io::ErrorKind::UnexpectedEof
                        && member.header().is_none()
                        && !self.is_first =>
                {
                    return garbage();
                }
                read => return read,
            }
            let rest = member.get_mut();
            let next = loop {
                let buffer = rest.fill_buf()?;
                match buffer.iter().position(|&byte| byte != 0) {
                    Some(zeros) => {
                        let next = buffer[zeros];
                        rest.consume(zeros);
                        break next;
                    }
                    None if buffer.is_empty() => return Ok(0),
                    None => {
                        let zeros = buffer.len();
                        rest.consume(zeros);
                    }
                }
            };
            if next != MAGIC {
                return garbage();
            }
            self.member = self.member.take().map(|member| GzDecoder::new(member.into_inner()));
            self.is_first = false;
        }
    }
}
