//! Tests tables of other ID services, which `raindrop codes import` reads.

use raindrop::store::{ForeignSegment, ForeignTable, StoreError};

use crate::{backend::Backend, sql::on_every_engine};

on_every_engine! {
    tables_of_other_services_are_read_as_they_made_them
    what_is_no_table_of_the_service_is_told
    values_that_cannot_be_numbers_are_named
}

/// The tables as the services' scripts create them, in SQL that only MySQL knows.
const MYSQL: [&str; 3] = [
    "CREATE TABLE `leaf_alloc` (
      `biz_tag` varchar(128)  NOT NULL DEFAULT '',
      `max_id` bigint(20) NOT NULL DEFAULT '1',
      `step` int(11) NOT NULL,
      `description` varchar(256)  DEFAULT NULL,
      `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
      PRIMARY KEY (`biz_tag`)
    ) ENGINE=InnoDB",
    "CREATE TABLE `tiny_id_info` (
      `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT '自增主键',
      `biz_type` varchar(63) NOT NULL DEFAULT '' COMMENT '业务类型，唯一',
      `begin_id` bigint(20) NOT NULL DEFAULT '0' COMMENT '开始id，仅记录初始值，无其他含义。初始化时begin_id和max_id应相同',
      `max_id` bigint(20) NOT NULL DEFAULT '0' COMMENT '当前最大id',
      `step` int(11) DEFAULT '0' COMMENT '步长',
      `delta` int(11) NOT NULL DEFAULT '1' COMMENT '每次id增量',
      `remainder` int(11) NOT NULL DEFAULT '0' COMMENT '余数',
      `create_time` timestamp NOT NULL DEFAULT '2010-01-01 00:00:00' COMMENT '创建时间',
      `update_time` timestamp NOT NULL DEFAULT '2010-01-01 00:00:00' COMMENT '更新时间',
      `version` bigint(20) NOT NULL DEFAULT '0' COMMENT '版本号',
      PRIMARY KEY (`id`),
      UNIQUE KEY `uniq_biz_type` (`biz_type`)
    ) ENGINE=InnoDB AUTO_INCREMENT=1 DEFAULT CHARSET=utf8 COMMENT 'id信息表'",
    "create table if not exists cosid
    (
        name            varchar(100)    not null comment '{namespace}.{name}',
        last_max_id     bigint unsigned not null default 0,
        last_fetch_time bigint unsigned not null default 0,
        constraint cosid_pk
            primary key (name)
    ) engine = InnoDB",
];

/// The same columns in SQL that every database knows, without their rules.
const PORTABLE: [&str; 3] = [
    "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128), max_id BIGINT, step INT)",
    "CREATE TABLE tiny_id_info (id BIGINT, biz_type VARCHAR(63), begin_id BIGINT, max_id BIGINT, \
     step INT, delta INT, remainder INT, version BIGINT)",
    "CREATE TABLE cosid (name VARCHAR(100), last_max_id NUMERIC(20), last_fetch_time BIGINT)",
];

async fn with_tables(backend: &Backend) {
    let tables = if let Backend::Mariadb(_) = backend { MYSQL } else { PORTABLE };
    for table in tables {
        backend.run(table).await;
    }
}

/// A service and the columns of its table.
type Service = (&'static str, &'static [&'static str]);

const LEAF: Service = ("leaf", &["biz_tag", "max_id", "step"]);
const TINYID: Service = ("tinyid", &["biz_type", "max_id", "step", "delta"]);
const COSID: Service = ("cosid", &["name", "last_max_id"]);

pub(crate) fn leaf_alloc() -> ForeignTable {
    ForeignTable { service: LEAF.0, name: "leaf_alloc".to_owned(), columns: LEAF.1 }
}

async fn read(
    backend: &Backend,
    (service, columns): Service,
    table: &str,
) -> Result<Vec<ForeignSegment>, StoreError> {
    let table = ForeignTable { service, name: table.to_owned(), columns };
    let store = backend.unprepared().await;
    let read = store.foreign_segments(&table).await;
    store.close().await;
    read
}

/// Makes sure that the database exists: SQLite's is a file that a store creates.
async fn with_database(backend: &Backend) {
    backend.run("CREATE TABLE anything (id INT)").await;
}

async fn tables_of_other_services_are_read_as_they_made_them(backend: &Backend) {
    with_tables(backend).await;
    for statement in [
        "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 2000), ('a b', 7, 1)",
        // The statement by which Leaf reserves.
        "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'order'",
        "INSERT INTO tiny_id_info (id, biz_type, begin_id, max_id, step, delta, remainder, version) \
         VALUES (1, 'test', 1, 1, 100000, 1, 0, 1), (2, 'test_odd', 1, 100001, 100000, 2, 1, 3)",
        "INSERT INTO cosid (name, last_max_id) VALUES ('shop.order', 9223372036854775807)",
        "CREATE TABLE Renamed_1 AS SELECT * FROM cosid",
    ] {
        backend.run(statement).await;
    }
    let segment = |name: &str, max_id, step, delta| ForeignSegment {
        name: name.to_owned(),
        max_id,
        step,
        delta,
    };
    let leaf = read(backend, LEAF, "leaf_alloc").await.expect("rows");
    assert_eq!(leaf, [segment("a b", 7, 1, 1), segment("order", 2_001, 2_000, 1)]);
    let tinyid = read(backend, TINYID, "tiny_id_info").await.expect("rows");
    let odd = segment("test_odd", 100_001, 100_000, 2);
    assert_eq!(tinyid, [segment("test", 1, 100_000, 1), odd]);
    let cosid = [segment("shop.order", (1 << 63) - 1, 0, 1)];
    assert_eq!(read(backend, COSID, "cosid").await.expect("rows"), cosid);
    let renamed = if let Backend::Postgres(_) = backend { "renamed_1" } else { "Renamed_1" };
    assert_eq!(read(backend, COSID, renamed).await.expect("rows"), cosid);
}

async fn what_is_no_table_of_the_service_is_told(backend: &Backend) {
    with_database(backend).await;
    let error = read(backend, LEAF, "leaf_alloc").await.expect_err("no table");
    assert!(error.is_permanent(), "{error}");
    assert!(error.to_string().starts_with("there is no table leaf_alloc in "), "{error}");
    backend.run("CREATE TABLE tiny_id_info (biz_type VARCHAR(63), max_id BIGINT)").await;
    let error = read(backend, TINYID, "tiny_id_info").await.expect_err("columns");
    assert!(error.to_string().ends_with("is not of tinyid: it lacks step, delta"), "{error}");
    for name in ["", "a.b", "a`b", "a\"b", "a; DROP TABLE anything"] {
        let error = read(backend, LEAF, name).await.expect_err("no name");
        assert!(error.to_string().contains("cannot be the name of a table to read"), "{error}");
    }
}

async fn values_that_cannot_be_numbers_are_named(backend: &Backend) {
    for table in PORTABLE {
        backend.run(table).await;
    }
    for (value, shown, reason) in [
        ("NULL", "null", "not a signed 64-bit integer"),
        ("-5", "-5", "negative"),
        ("9223372036854775808", "9223372036854775808", "not a signed 64-bit integer"),
    ] {
        // SQLite would keep a number beyond its integers as an approximation.
        let value = if value.len() > 10 { format!("'{value}'") } else { value.to_owned() };
        if let Backend::Sqlite(_) = backend {
            backend.run("DROP TABLE cosid").await;
            backend.run("CREATE TABLE cosid (name TEXT, last_max_id)").await;
        }
        backend.run("DELETE FROM cosid").await;
        let insert = format!("INSERT INTO cosid (name, last_max_id) VALUES ('a', {value})");
        backend.run(&insert).await;
        let error = read(backend, COSID, "cosid").await.expect_err("no number");
        let expected =
            format!("table cosid, row a, column last_max_id: {shown:?} cannot be read: {reason}");
        assert_eq!(error.to_string(), expected);
    }
    backend.run("INSERT INTO leaf_alloc (max_id, step) VALUES (1, 1)").await;
    let error = read(backend, LEAF, "leaf_alloc").await.expect_err("no name");
    assert!(error.to_string().contains("column biz_tag: \"null\""), "{error}");
    backend.run("DELETE FROM leaf_alloc").await;
    backend.run("INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('a', 1)").await;
    let error = read(backend, LEAF, "leaf_alloc").await.expect_err("no step");
    assert!(error.to_string().contains("row a, column step: \"null\""), "{error}");
}

#[tokio::test]
async fn stores_without_tables_say_so() {
    let store = Backend::memory().await.unprepared().await;
    let error = store.foreign_segments(&leaf_alloc()).await.expect_err("no tables");
    assert!(error.is_permanent() && error.to_string().contains("leaf_alloc"), "{error}");
}
