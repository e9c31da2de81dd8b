CREATE TABLE IF NOT EXISTS `{table}_keys` (
  namespace VARBINARY(255) NOT NULL COMMENT 'binary: names differ by case and by trailing blanks',
  code VARBINARY(96) NOT NULL COMMENT 'binary, too',
  request_key VARBINARY(255) NOT NULL COMMENT 'the Idempotency-Key of a client',
  owner CHAR(32) NOT NULL COMMENT 'token of the process that reserves the number',
  number_text VARBINARY(128) NOT NULL COMMENT 'empty until the number is reserved; never changed afterwards',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  updated_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (namespace, code, request_key),
  KEY created (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin
  COMMENT = 'Raindrop: one row per idempotency key. Nodes delete rows after 30 days'
