SET @raindrop_step = IF(
  (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
   AND table_name = '{table}' AND column_name = 'epoch') = 0,
  'ALTER TABLE `{table}`
     ADD COLUMN epoch CHAR(32) NOT NULL DEFAULT ''00000000000000000000000000000000''
       COMMENT ''that of the layout record at the last write''',
  'DO 0');
PREPARE raindrop_step FROM @raindrop_step;
EXECUTE raindrop_step;
SET @raindrop_step = IF(
  (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
   AND table_name = '{table}_layout' AND column_name = 'epoch') = 0,
  'ALTER TABLE `{table}_layout`
     ADD COLUMN identity VARBINARY(255) NOT NULL DEFAULT ''''
       COMMENT ''the server that the present epoch began on'',
     ADD COLUMN epoch CHAR(32) NOT NULL DEFAULT ''00000000000000000000000000000000''
       COMMENT ''random, another one after each fail-over'',
     ADD COLUMN history VARCHAR(1000) NOT NULL DEFAULT ''''
       COMMENT ''when the epoch began, its barrier, the reach of leases, earlier epochs''',
  'DO 0');
PREPARE raindrop_step FROM @raindrop_step;
EXECUTE raindrop_step;
DEALLOCATE PREPARE raindrop_step
