//! `file_read`: reads text files below the directories in `allowed_paths`.
//!
//! The directory is selected by the text of the path alone; the file is then opened relative to a handle of that
//! directory (`beneath`), so neither `..` nor a symbolic link escapes it. All denied paths get the same error, which
//! reveals nothing about files outside.

mod beneath;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Value, json};

use crate::{
    Annotations, Arguments, Tool, ToolContext, ToolDefinition, ToolError, ToolErrorCode, ToolOutput,
};
use beneath::ReadError;

/// Maximum bytes of a path.
const MAX_PATH: usize = 4096;

/// The tool.
pub(crate) struct FileRead {
    roots: Vec<Root>,
    /// Base of relative paths.
    working: PathBuf,
    max_bytes: usize,
}

/// An allowed directory. Held open, so that renaming or replacing it has no effect.
struct Root {
    /// The path as configured, for the description of the tool.
    shown: String,
    /// Absolute paths: as configured, and if that has symbolic links, resolved.
    names: Vec<PathBuf>,
    dir: Arc<Dir>,
}

impl FileRead {
    /// Opens the directories; relative ones are below `working`. Directories that cannot be opened are skipped with a
    /// warning; `None` if none is left.
    pub(crate) fn open(allowed: &[PathBuf], working: &Path, max_bytes: usize) -> Option<Self> {
        let roots: Vec<Root> = allowed.iter().filter_map(|path| Root::open(path, working)).collect();
        (!roots.is_empty()).then(|| Self { roots, working: working.to_owned(), max_bytes })
    }

    /// The allowed directory of a path, and the rest of the path below it.
    fn locate(&self, path: &str) -> Option<(Arc<Dir>, PathBuf)> {
        let path = self.working.join(path);
        let below = |root: &Root| {
            let rest = root.names.iter().find_map(|name| path.strip_prefix(name).ok())?;
            Some((Arc::clone(&root.dir), rest.to_owned()))
        };
        // Of nested directories the innermost, which restricts symbolic links the most.
        let innermost = self.roots.iter().filter_map(below).min_by_key(|(_, rest)| rest.components().count());
        innermost.filter(|(_, rest)| stays_below(rest))
    }
}

/// Whether a relative path never rises above its start. The operating system would deny that, too, but its error
/// would reveal which names exist.
fn stays_below(path: &Path) -> bool {
    let mut depth = 0_usize;
    path.components().all(|component| {
        let next = match component {
            Component::ParentDir => depth.checked_sub(1),
            Component::CurDir => Some(depth),
            Component::Normal(_) => Some(depth + 1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = next.unwrap_or(depth);
        next.is_some()
    })
}

impl Root {
    fn open(path: &Path, working: &Path) -> Option<Self> {
        // An empty path, for example from an unset variable, must not mean the working directory.
        if path.as_os_str().is_empty() {
            tracing::warn!("file_read: ignoring an empty path in allowed_paths");
            return None;
        }
        let name = working.join(path);
        match Dir::open_ambient_dir(&name, ambient_authority()) {
            Ok(dir) => {
                let real = name.canonicalize().ok().filter(|real| *real != name);
                let shown = path.display().to_string();
                Some(Self { shown, names: std::iter::once(name).chain(real).collect(), dir: Arc::new(dir) })
            }
            Err(error) => {
                tracing::warn!(path = %name.display(), %error, "file_read: cannot open a directory of allowed_paths, ignoring it");
                None
            }
        }
    }
}

#[async_trait]
impl Tool for FileRead {
    fn definition(&self) -> ToolDefinition {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file."},
                "offset": {"type": "integer", "minimum": 0, "description": "First byte to read; 0 if absent."},
                "length": {"type": "integer", "minimum": 1, "description": "Bytes to read; all if absent."},
            },
            "required": ["path"],
        });
        let returns = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "size": {"type": "integer"},
                "next_offset": {"type": "integer"},
            },
            "required": ["path", "content", "size"],
        });
        let description = format!(
            "Reads a UTF-8 text file, at most {} bytes at once. 'size' is the whole file's in bytes; where \
             'next_offset' is returned the file goes on there. Readable are files below: {}.",
            self.max_bytes,
            self.roots.iter().map(|root| root.shown.as_str()).collect::<Vec<_>>().join(", "),
        );
        ToolDefinition::new("file_read", &description, &parameters)
            .with_returns(&returns)
            .with_annotations(Annotations::READ_ONLY_OPEN_WORLD)
            .with_tag("fs")
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = arguments.get("path").and_then(Value::as_str).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| ToolError::argument("path parameter required"))?;
        let offset = whole(arguments, "offset")?.unwrap_or(0);
        let length =
            whole(arguments, "length")?.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        if path.len() > MAX_PATH || path.contains('\0') {
            return Err(denied());
        }
        let (dir, rest) = self.locate(path).ok_or_else(denied)?;
        let length = length.min(self.max_bytes);
        let read = tokio::task::spawn_blocking(move || beneath::read(&dir, &rest, offset, length)).await;
        let chunk = match read {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(ReadError::Outside)) => return Err(denied()),
            Ok(Err(ReadError::Failed(why))) => {
                return Err(ToolError::failed(format!("failed to read file: {why}")));
            }
            Err(stopped) => return Err(ToolError::failed("failed to read file").with_cause(stopped)),
        };
        let mut result = json!({"path": path, "content": chunk.content, "size": chunk.size});
        if let (Some(result), Some(next)) = (result.as_object_mut(), chunk.next_offset) {
            result.insert("next_offset".to_owned(), next.into());
        }
        Ok(ToolOutput::value(result))
    }
}

/// A non-negative integer; models also write 5.0.
fn whole(arguments: &Arguments, name: &str) -> Result<Option<u64>, ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let float =
                || value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n)).map(|n| n as u64);
            let number = value.as_u64().or_else(float);
            number
                .map(Some)
                .ok_or_else(|| ToolError::argument(format!("{name} must be a whole number of bytes")))
        }
    }
}

fn denied() -> ToolError {
    ToolError::refused(ToolErrorCode::AccessDenied, "access denied: path not in allowed directories")
}
