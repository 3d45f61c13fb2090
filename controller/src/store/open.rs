//! Opening the file: what it must be before anything is written to it, and bringing it up to date.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection, SqliteConnection, SqlitePool};

use super::{Store, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// How long a writer waits for another process's transaction: the longest of them stores one run.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a task of this process waits for the one writer.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(120);
/// Makes SQLite look into the file: opening alone does not.
const PROBE: &str = "select name from sqlite_master limit 1";
/// Two processes may make the file at the same time: the slower one finds the tables there and
/// looks again.
const MIGRATE_TRIES: u32 = 5;
const MIGRATE_PAUSE: Duration = Duration::from_millis(200);

/// Which file lies at a path now: its device and number; none where none does.
pub(super) fn file_of(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

impl Store {
    /// Opens the file for writing, makes it and its folder if need be, and brings it up to date.
    ///
    /// # Errors
    /// One line naming the file, before anything is written: read-only, not ours, newer.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::Other {
                path: path.to_path_buf(),
                message: format!("folder {} cannot be made: {error}", folder.display()),
            })?;
        }
        // Looked at first, since root would be let through and an owner meant what he set.
        if std::fs::metadata(path).is_ok_and(|meta| meta.permissions().readonly()) {
            return Err(StoreError::ReadOnly(path.to_path_buf()));
        }
        if path.exists() {
            inspect(path).await?;
        }
        let options = options(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal);
        let pool = pool(options)
            .await
            .map_err(|error| StoreError::of(path, &error))?;
        migrate(path, &pool).await?;
        Ok(Self {
            pool,
            path: path.to_path_buf(),
            file: file_of(path),
        })
    }

    /// Opens the file for reading only; a file that is not there is [`StoreError::Missing`].
    ///
    /// # Errors
    /// As [`Store::open`]; a file from an older version must first be opened for writing.
    pub async fn open_read(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_path_buf()));
        }
        let found = inspect(path).await?;
        if found < known_version() {
            // An old file, or one that was only just made: bring it up to date as a writer would.
            Self::open(path).await?.close().await;
        }
        Self::only_read(path).await
    }

    /// Opens the file for reading only and leaves its schema as it is, be it of an older version;
    /// says whether it is up to date. For copies: other questions may ask for columns that it lacks.
    ///
    /// # Errors
    /// As [`Store::open_read`]; [`StoreError::NotOurs`] for a file without tables.
    pub async fn open_as_is(path: &Path) -> Result<(Self, bool), StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_path_buf()));
        }
        match inspect(path).await? {
            0 => Err(StoreError::NotOurs(path.to_path_buf())),
            found => Ok((Self::only_read(path).await?, found == known_version())),
        }
    }

    async fn only_read(path: &Path) -> Result<Self, StoreError> {
        let read = options(path).read_only(true);
        let opened = async {
            let pool = pool(read.clone()).await?;
            sqlx::query(PROBE).execute(&pool).await?;
            Ok(pool)
        };
        let pool = match opened.await {
            Ok(pool) => pool,
            Err(error) if !beside_a_log(&error) => return Err(StoreError::of(path, &error)),
            Err(_) => pool(read.immutable(true))
                .await
                .map_err(|error| StoreError::of(path, &error))?,
        };
        Ok(Self {
            pool,
            path: path.to_path_buf(),
            file: file_of(path),
        })
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // Reading a large run takes a second and is no fault: nobody is warned with our SQL.
        .disable_statement_logging()
}

async fn pool(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options)
        .await
}

fn known_version() -> i64 {
    MIGRATIONS
        .iter()
        .map(|migration| migration.version)
        .max()
        .unwrap_or_default()
}

/// Looks at an existing file without writing to it; gives its schema's version, 0 for an empty one.
async fn inspect(path: &Path) -> Result<i64, StoreError> {
    let error = |error: sqlx::Error| StoreError::of(path, &error);
    if !path.is_file() {
        return Err(StoreError::NotOurs(path.to_path_buf()));
    }
    let read = options(path).read_only(true);
    let found = match version_in(&read).await {
        Err(sqlx) if beside_a_log(&sqlx) => version_in(&read.immutable(true)).await,
        found => found,
    };
    match found.map_err(error)? {
        None => Err(StoreError::NotOurs(path.to_path_buf())),
        Some(found) if found > known_version() => Err(StoreError::Newer {
            path: path.to_path_buf(),
            found,
            known: known_version(),
        }),
        Some(found) => Ok(found),
    }
}

/// On read-only media the log's helper files cannot be made; nobody writes there either, so that
/// the file may be taken for immutable.
fn beside_a_log(error: &sqlx::Error) -> bool {
    matches!(
        StoreError::of(Path::new(""), error),
        StoreError::CannotOpen(_) | StoreError::ReadOnly(_)
    )
}

async fn version_in(options: &SqliteConnectOptions) -> Result<Option<i64>, sqlx::Error> {
    let mut connection = SqliteConnection::connect_with(options).await?;
    let found = schema_version(&mut connection).await;
    let closed = connection.close().await;
    let found = found?;
    closed.map(|()| found)
}

/// Version of the newest migration applied; 0 for a file without tables, none for other tables.
async fn schema_version(connection: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
    let tables: Vec<String> =
        sqlx::query_scalar("select name from sqlite_master where type = 'table'")
            .fetch_all(&mut *connection)
            .await?;
    if tables.is_empty() {
        return Ok(Some(0));
    }
    if !tables.iter().any(|table| table == "_sqlx_migrations") {
        return Ok(None);
    }
    let version: Option<i64> = sqlx::query_scalar("select max(version) from _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    // Somebody else's program may use the same table of migrations.
    let ours = version.is_none() || tables.iter().any(|table| table == "bench_stats");
    Ok(ours.then(|| version.unwrap_or_default()))
}

async fn migrate(path: &Path, pool: &SqlitePool) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match MIGRATIONS.run(pool).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let lost_a_race = matches!(
            error,
            MigrateError::Execute(_) | MigrateError::ExecuteMigration(..) | MigrateError::Dirty(_)
        );
        if !lost_a_race || tries >= MIGRATE_TRIES {
            return Err(migrate_error(path, error));
        }
        tokio::time::sleep(MIGRATE_PAUSE).await;
    }
}

fn migrate_error(path: &Path, error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            StoreError::of(path, &error)
        }
        MigrateError::VersionMissing(found) => StoreError::Newer {
            path: path.to_path_buf(),
            found,
            known: known_version(),
        },
        MigrateError::VersionMismatch(_) => StoreError::NotOurs(path.to_path_buf()),
        error => StoreError::Other {
            path: path.to_path_buf(),
            message: error.to_string(),
        },
    }
}
