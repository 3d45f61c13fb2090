//! Descriptors that a parent handed over by number.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::Failure;

/// Takes ownership of an open descriptor; `flag` names the flag in an error.
pub(super) fn adopt(fd: RawFd, flag: &str) -> Result<OwnedFd, Failure> {
    if fd <= 2 {
        return Err(Failure::Usage(format!(
            "{flag} {fd}: 0, 1 and 2 are stdin, stdout and stderr"
        )));
    }
    // SAFETY: only asked whether it is open, within this call; a closed number makes fcntl fail.
    let asked = unsafe { BorrowedFd::borrow_raw(fd) };
    // What we start ourselves must not hold it open.
    fcntl(asked, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(|error| {
        Failure::Usage(format!(
            "{flag} {fd}: this descriptor is not open ({error})"
        ))
    })?;
    // SAFETY: it is open, and our parent gave it to us by this number for us alone: nothing else in
    // this process knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
