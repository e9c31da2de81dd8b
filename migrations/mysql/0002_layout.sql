CREATE TABLE IF NOT EXISTS `{table}_layout` (
  namespace VARBINARY(255) NOT NULL,
  words VARCHAR(1000) NOT NULL COMMENT 'how the bits of an ID are divided',
  complete VARCHAR(1000) NOT NULL DEFAULT '' COMMENT 'the reserved keys whose rows are all there, joined by commas',
  since_tick BIGINT NOT NULL DEFAULT 0 COMMENT 'from which tick on there are IDs for a past time',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (namespace)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin
  COMMENT = 'Raindrop: one layout per namespace'
