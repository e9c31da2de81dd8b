CREATE TABLE IF NOT EXISTS `{table}_layout` (
  namespace VARBINARY(255) NOT NULL,
  token CHAR(32) NOT NULL COMMENT 'fresh at every write',
  words VARCHAR(1000) NOT NULL COMMENT 'how the bits of an ID are divided',
  complete VARCHAR(1000) NOT NULL COMMENT 'the reserved keys that have rows, joined by commas; after a colon, which',
  since_tick BIGINT NOT NULL COMMENT 'from which tick on there are IDs for a past time',
  first_tick BIGINT NOT NULL COMMENT 'the first tick that began after this row was created',
  identity VARBINARY(255) NOT NULL COMMENT 'the server that the present epoch began on',
  epoch CHAR(32) NOT NULL COMMENT 'random, another one after each fail-over',
  history VARCHAR(1000) NOT NULL COMMENT 'when the epoch began, its barrier, the reach of leases, earlier epochs',
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  PRIMARY KEY (namespace)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin
  COMMENT = 'Raindrop: one layout per namespace'
