CREATE TABLE IF NOT EXISTS `{table}_settings` (
  namespace VARBINARY(255) NOT NULL COMMENT 'binary: names differ by case and by trailing blanks',
  code VARBINARY(96) NOT NULL COMMENT 'binary, too',
  settings VARBINARY(255) NOT NULL COMMENT 'the settings in words',
  token CHAR(32) NOT NULL COMMENT 'fresh at every write',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  updated_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (namespace, code)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin
  COMMENT = 'Raindrop: one row per managed segment code. Never delete rows'
