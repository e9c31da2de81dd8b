//! Tests IDs and UUIDs in the columns of an application, on real databases.

use std::{fmt::Write as _, sync::Arc};

use raindrop::core::{
    clock::ManualClock,
    encoding::{Encoder, Encoding},
    id::Id,
    issue::{Generator, IssueSettings},
    preset::Preset,
};
use sqlx::{
    AssertSqlSafe, ColumnIndex, Connection, Database, Decode, Encode, Executor, IntoArguments,
    MySqlConnection, PgConnection, SqliteConnection, Type, query, query_scalar,
};

use crate::backend::Backend;

const IDS: [u64; 4] = [0, 7, 249_679_838_552_547_328, (1 << 63) - 1];

fn id(number: u64) -> Id {
    Id::new(number).expect("63 bits")
}

/// Writes and reads IDs through a driver. `column` is the type of columns with IDs, and `one` and
/// `two` are the parameters of a statement.
async fn writes_and_reads_ids<C>(connection: &mut C, column: &str, [one, two]: [&str; 2])
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    <C::Database as Database>::Arguments: IntoArguments<C::Database>,
    for<'v> i64: Type<C::Database> + Encode<'v, C::Database> + Decode<'v, C::Database>,
    for<'v> Option<Id>: Encode<'v, C::Database>,
    usize: ColumnIndex<<C::Database as Database>::Row>,
{
    let create = format!("CREATE TABLE orders (id {column} PRIMARY KEY, previous {column})");
    connection.execute(AssertSqlSafe(create)).await.expect("a table");
    let insert = format!("INSERT INTO orders VALUES ({one}, {two})");
    let mut previous = None;
    for number in IDS {
        let query = query(AssertSqlSafe(insert.clone())).bind(id(number)).bind(previous);
        query.execute(&mut *connection).await.expect("a row");
        previous = Some(id(number));
    }
    let ids: Vec<Id> = query_scalar("SELECT id FROM orders ORDER BY id")
        .fetch_all(&mut *connection)
        .await
        .expect("IDs");
    assert_eq!(ids, IDS.map(id));
    let select = format!("SELECT previous FROM orders WHERE id = {one}");
    for (number, expected) in [(0, None), (7, Some(id(0))), (IDS[3], Some(id(IDS[2])))] {
        let query = query_scalar::<_, Option<Id>>(AssertSqlSafe(select.clone())).bind(id(number));
        assert_eq!(query.fetch_one(&mut *connection).await.expect("a row"), expected);
    }
    connection.execute("INSERT INTO orders VALUES (-5, NULL)").await.expect("a row");
    let read = query_scalar::<_, Id>("SELECT id FROM orders WHERE id < 0");
    let error = read.fetch_one(&mut *connection).await.expect_err("a negative number");
    assert_eq!(
        error.to_string(),
        "error occurred while decoding column 0: -5 is not an ID, which is 0 to \
         9223372036854775807"
    );
}

#[tokio::test]
async fn sqlite_has_ids_as_integers() {
    let backend = Backend::sqlite().await;
    let url = format!("{}?mode=rwc", backend.url());
    let mut connection = SqliteConnection::connect(&url).await.expect("a file");
    writes_and_reads_ids(&mut connection, "INTEGER", ["?", "?"]).await;
}

#[tokio::test]
async fn mariadb_has_ids_as_bigint() {
    let backend = Backend::mariadb().await;
    let mut connection = MySqlConnection::connect(&backend.url()).await.expect("the server");
    writes_and_reads_ids(&mut connection, "BIGINT", ["?", "?"]).await;
}

#[tokio::test]
async fn postgres_has_ids_as_bigint() {
    let backend = Backend::postgres().await;
    let mut connection = PgConnection::connect(&backend.url()).await.expect("the server");
    writes_and_reads_ids(&mut connection, "BIGINT", ["$1", "$2"]).await;
}

#[tokio::test]
async fn postgres_has_arrays_of_ids() {
    let backend = Backend::postgres().await;
    let mut connection = PgConnection::connect(&backend.url()).await.expect("the server");
    let ids = IDS.map(id);
    let read: Vec<Id> = query_scalar("SELECT $1::BIGINT[]")
        .bind(&ids[..])
        .fetch_one(&mut connection)
        .await
        .expect("an array");
    assert_eq!(read, ids);
    let found: bool = query_scalar("SELECT 7::BIGINT = ANY($1)")
        .bind(read)
        .fetch_one(&mut connection)
        .await
        .expect("an answer");
    assert!(found);
    let read = query_scalar::<_, Vec<Id>>("SELECT ARRAY[1, -5]::BIGINT[]");
    let error = read.fetch_one(&mut connection).await.expect_err("a negative number").to_string();
    assert!(error.ends_with("-5 is not an ID, which is 0 to 9223372036854775807"), "{error}");
}

/// Returns the UUIDs of this many IDs, in the order in which a node issues them.
fn uuids(count: u32) -> Vec<String> {
    let layout = Preset::Raindrop.layout();
    let clock = Arc::new(ManualClock::new(1_795_000_000_000));
    let settings = IssueSettings::default();
    let generator = Generator::with_worker(layout.clone(), 5, &settings, clock).expect("it fits");
    let encoder = Encoder::new(Encoding::Uuid7, false, &layout).expect("milliseconds");
    let claim = generator.claim("order", count).expect("within max_wait");
    claim.ids.map(|id| encoder.text(id).to_string()).collect()
}

/// Inserts UUIDs shuffled into a column of this type, by this expression around each text.
async fn sorts_uuids_as_issued(backend: &Backend, column: &str, [before, after]: [&str; 2]) {
    // Enough for several ticks. The prime shuffles them, as it does not divide their number.
    let uuids = uuids(10_000);
    let (count, prime) = (uuids.len(), 7_919);
    backend.run(&format!("CREATE TABLE uuids (id {column} PRIMARY KEY, issued INT)")).await;
    let mut insert = String::new();
    for index in 0..count {
        let issued = index * prime % count;
        let separator = if index % 1_000 == 0 { "INSERT INTO uuids VALUES" } else { "," };
        write!(insert, "{separator} ({before}'{}'{after}, {issued})", uuids[issued]).expect("text");
        if index % 1_000 == 999 {
            backend.run(&insert).await;
            insert.clear();
        }
    }
    let select = format!("SELECT {} FROM uuids ORDER BY id", backend.as_text("issued"));
    let issued = backend.texts(&select).await;
    assert_eq!(issued, (0..count).map(|index| index.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn postgres_sorts_uuids_as_they_were_issued() {
    sorts_uuids_as_issued(&Backend::postgres().await, "UUID", ["", ""]).await;
}

/// MariaDB has the type from 10.7, and sorts it as bytes from 10.11.5. MySQL has none.
#[tokio::test]
async fn mariadb_sorts_uuids_as_they_were_issued() {
    let binary = Backend::mariadb().await;
    sorts_uuids_as_issued(&binary, "BINARY(16)", ["UNHEX(REPLACE(", ", '-', ''))"]).await;
    let version = &binary.texts("SELECT VERSION()").await[0];
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
    if version.contains("MariaDB") && numbers >= vec![10, 11, 5] {
        sorts_uuids_as_issued(&Backend::mariadb().await, "UUID", ["", ""]).await;
    }
}
