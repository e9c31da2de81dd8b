CREATE TABLE IF NOT EXISTS `{table}` (
  namespace VARBINARY(255) NOT NULL COMMENT 'binary: names differ by case and by trailing blanks',
  code VARBINARY(96) NOT NULL COMMENT 'binary, too; a code, or code@tick for IDs of a past time',
  next_number BIGINT NOT NULL COMMENT 'where the next block begins',
  step BIGINT NOT NULL DEFAULT 0 COMMENT 'by how much the last reservation raised it',
  token CHAR(32) NOT NULL DEFAULT '00000000000000000000000000000000' COMMENT 'fresh at every write',
  epoch CHAR(32) NOT NULL DEFAULT '00000000000000000000000000000000' COMMENT 'that of the layout record at the last reservation',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  updated_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (namespace, code)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin
  COMMENT = 'Raindrop: one row per segment code. Never delete rows while nodes run'
