SET @raindrop_step = IF(
  (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
   AND table_name = '{table}' AND column_name = 'epoch') = 0,
  'ALTER TABLE `{table}`
     ADD COLUMN epoch CHAR(32) NOT NULL DEFAULT ''00000000000000000000000000000000''
       COMMENT ''that of the layout record at the last reservation''',
  'DO 0');
PREPARE raindrop_step FROM @raindrop_step;
EXECUTE raindrop_step;
DEALLOCATE PREPARE raindrop_step
