//! IDs in the columns of databases, by sqlx.
//!
//! IDs have 63 bits, so a signed integer of 64 bits holds every ID, in the same order.

use sqlx::{Database, Decode, Encode, Type, encode::IsNull, error::BoxDynError};

use super::Id;

/// Is a signed integer of 64 bits in every database of sqlx.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "sqlx-postgres")]
/// # mod postgres {
/// use raindrop_core::id::Id;
/// use sqlx::PgPool;
///
/// /// Returns the order after another one, if there is one.
/// async fn next_order(database: &PgPool, order: Id) -> sqlx::Result<Option<Id>> {
///     let sql = "SELECT id FROM orders WHERE id > $1 ORDER BY id LIMIT 1";
///     sqlx::query_scalar(sql).bind(order).fetch_optional(database).await
/// }
/// # }
/// ```
impl<DB: Database> Type<DB> for Id
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <i64 as Type<DB>>::type_info()
    }

    fn compatible(info: &DB::TypeInfo) -> bool {
        <i64 as Type<DB>>::compatible(info)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Id
where
    i64: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<'q, DB>>::encode(self.0.cast_signed(), buffer)
    }
}

/// Refuses a negative number, which another program wrote.
impl<'r, DB: Database> Decode<'r, DB> for Id
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let number = <i64 as Decode<'r, DB>>::decode(value)?;
        u64::try_from(number)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| format!("{number} is not an ID, which is 0 to {}", Self::MAX).into())
    }
}

/// Makes `Vec<Id>` and `&[Id]` a `BIGINT[]`, such as for `WHERE id = ANY($1)`.
///
/// # Examples
///
/// ```
/// use raindrop_core::id::Id;
/// use sqlx::PgPool;
///
/// async fn delete_orders(database: &PgPool, orders: &[Id]) -> sqlx::Result<u64> {
///     let sql = "DELETE FROM orders WHERE id = ANY($1)";
///     Ok(sqlx::query(sql).bind(orders).execute(database).await?.rows_affected())
/// }
/// ```
#[cfg(feature = "sqlx-postgres")]
impl sqlx::postgres::PgHasArrayType for Id {
    fn array_type_info() -> sqlx::postgres::PgTypeInfo {
        <i64 as sqlx::postgres::PgHasArrayType>::array_type_info()
    }

    fn array_compatible(info: &sqlx::postgres::PgTypeInfo) -> bool {
        <i64 as sqlx::postgres::PgHasArrayType>::array_compatible(info)
    }
}
