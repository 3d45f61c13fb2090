//! One run at a time on a device, whoever starts it: agents, other users, a second checkout.
//!
//! A file per device in a folder that the whole machine shares, locked with `flock`. The lock belongs
//! to the open file, so each run opens it afresh, and the keeper holds it until nothing of the child
//! is left: an orphan keeps its device. What a taken device means for a run is left to the caller.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contracts::run::Device;
use nix::libc;

/// Names another folder.
pub const FOLDER_VARIABLE: &str = "CHAPTERBENCH_LOCK_DIR";
/// Folders for locks that every user may write to, by habit of the systems.
const MACHINE_FOLDERS: [&str; 2] = ["/run/lock", "/var/lock"];
/// Where neither is open to all.
const OWN_FOLDER: &str = "/tmp/chapterbench-locks";
/// Anybody may add a file, nobody may remove another's.
const SHARED_MODE: u32 = 0o1777;
/// Pause between two tries.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// A holder is a line; a file that is longer is not ours.
const HOLDER_BYTES_MAX: u64 = 1024;

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run has the device.
    #[error("device {device} is in use by {holder}")]
    Held {
        /// `cpu`, `cuda-0`
        device: String,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// The lock file can't be opened.
    #[error("lock file {}: {error}; {FOLDER_VARIABLE} names another folder", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Locks `device` in the machine's folder, waiting for at most `wait`. `holder` says who we are to
/// those who find it taken (`run 01J…`). For [`super::ChildSpec::keep`]; closing it frees the device.
pub async fn acquire(device: &Device, holder: &str, wait: Duration) -> Result<OwnedFd, LockError> {
    acquire_in(&folder(), device, holder, wait).await
}

/// The same in a folder of the caller's choice, which is made if needed.
pub async fn acquire_in(
    folder: &Path,
    device: &Device,
    holder: &str,
    wait: Duration,
) -> Result<OwnedFd, LockError> {
    let begun = Instant::now();
    let device = key(device);
    let path = folder.join(format!("chapterbench-{device}.lock"));
    let failed = |error| LockError::File {
        path: path.clone(),
        error,
    };
    make_folder(folder).map_err(failed)?;
    loop {
        let (file, writable) = open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                if writable {
                    write_holder(&file, holder).map_err(failed)?;
                }
                return Ok(file.into());
            }
            Err(TryLockError::WouldBlock) if begun.elapsed() >= wait => {
                return Err(LockError::Held {
                    device,
                    holder: read_holder(&file),
                });
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        drop(file);
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// The folder that all programs on this machine use, whoever runs them.
pub fn folder() -> PathBuf {
    if let Some(named) = std::env::var_os(FOLDER_VARIABLE).filter(|name| !name.is_empty()) {
        return PathBuf::from(named);
    }
    // By its mode and not by whether *we* may write: root and a user must choose the same one.
    let shared = |folder: &&&str| {
        std::fs::metadata(folder).is_ok_and(|facts| {
            facts.is_dir() && facts.permissions().mode() & SHARED_MODE == SHARED_MODE
        })
    };
    PathBuf::from(
        MACHINE_FOLDERS
            .iter()
            .find(shared)
            .copied()
            .unwrap_or(OWN_FOLDER),
    )
}

fn key(device: &Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda { index } => format!("cuda-{index}"),
        Device::Metal { index } => format!("metal-{index}"),
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(SHARED_MODE)
        .create(folder)?;
    // The umask took bits away.
    std::fs::set_permissions(folder, Permissions::from_mode(SHARED_MODE))
}

/// Opens the file, and makes it only if it isn't there: in a folder open to all, the kernel may refuse
/// O_CREAT on another user's file. Links are not followed. Whether we may write in it.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let options = |write: bool, create: bool| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(write)
            .create_new(create)
            .custom_flags(libc::O_NOFOLLOW);
        options.open(path)
    };
    match options(true, false) {
        Ok(file) => Ok((file, true)),
        // Another user's: a lock needs no right to write.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok((options(false, false)?, false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match options(true, true) {
            Ok(file) => {
                file.set_permissions(Permissions::from_mode(0o666))?;
                Ok((file, true))
            }
            // Somebody was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok((options(true, false)?, true))
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn write_holder(mut file: &File, holder: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "pid {}, {holder}", std::process::id())
}

/// What the holder wrote, on one line; the lock may be a moment older than the words.
fn read_holder(file: &File) -> String {
    let mut bytes = Vec::new();
    let read = file.take(HOLDER_BYTES_MAX).read_to_end(&mut bytes);
    let text: String = String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    if read.is_err() || text.is_empty() {
        "a process that left no name".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[tokio::test]
    async fn a_taken_device_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("locks");
        let lock = acquire_in(&folder, &Device::Cpu, "run 01J", NOW)
            .await
            .unwrap();
        let said = acquire_in(&folder, &Device::Cpu, "run 02", NOW)
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(
            said,
            format!(
                "device cpu is in use by pid {}, run 01J",
                std::process::id()
            )
        );
        // Another device is another lock.
        acquire_in(&folder, &Device::Cuda { index: 0 }, "run 02", NOW)
            .await
            .unwrap();
        drop(lock);
        acquire_in(&folder, &Device::Cpu, "run 02", NOW)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn waiting_ends_when_the_device_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let lock = acquire_in(dir.path(), &Device::Cpu, "run 01", NOW)
            .await
            .unwrap();
        let wait = acquire_in(dir.path(), &Device::Cpu, "run 02", Duration::from_secs(30));
        let free = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(lock);
        };
        let (second, ()) = tokio::join!(wait, free);
        second.unwrap();
    }

    #[tokio::test]
    async fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("chapterbench-cpu.lock")).unwrap();
        let error = acquire_in(dir.path(), &Device::Cpu, "run 01", NOW)
            .await
            .unwrap_err();
        assert!(matches!(error, LockError::File { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "precious");
    }
}
