CREATE TABLE IF NOT EXISTS `{table}` (
  namespace VARBINARY(255) NOT NULL COMMENT 'binary: namespaces differ by case and by trailing blanks',
  reserved_key VARBINARY(32) NOT NULL COMMENT 'width and value of the reserved bits',
  worker_id BIGINT NOT NULL,
  holder VARCHAR(255) NOT NULL DEFAULT '' COMMENT 'a label for people, never an identity',
  token CHAR(32) NOT NULL COMMENT 'fresh at every write',
  epoch CHAR(32) NOT NULL DEFAULT '00000000000000000000000000000000' COMMENT 'that of the layout record at the last write',
  lane SMALLINT NOT NULL DEFAULT 0 COMMENT 'the lane of the last write',
  marks VARCHAR(255) NOT NULL COMMENT 'one position per lane; everything below may have been issued',
  heartbeat_at DATETIME(6) NOT NULL DEFAULT '1970-01-01 00:00:00' COMMENT 'UTC, the last write',
  expires_at DATETIME(6) NOT NULL DEFAULT '1970-01-01 00:00:00' COMMENT 'UTC; 1970 when released',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  updated_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (namespace, reserved_key, worker_id),
  KEY longest_unused (namespace, reserved_key, heartbeat_at, worker_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin
  COMMENT = 'Raindrop: one row per worker id. Never delete rows while nodes run'
