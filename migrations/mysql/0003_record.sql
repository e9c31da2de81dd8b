SET @raindrop_step = IF(
  (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
   AND table_name = '{table}_layout' AND column_name = 'token') = 0,
  'ALTER TABLE `{table}_layout`
     ADD COLUMN token CHAR(32) NOT NULL DEFAULT ''00000000000000000000000000000000''
       COMMENT ''fresh at every write'',
     ADD COLUMN first_tick BIGINT NOT NULL DEFAULT 0
       COMMENT ''the first tick that began after this row was created''',
  'DO 0');
PREPARE raindrop_step FROM @raindrop_step;
EXECUTE raindrop_step;
DEALLOCATE PREPARE raindrop_step
