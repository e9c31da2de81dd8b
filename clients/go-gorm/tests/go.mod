module git.example.org/raindrop/clients/go-gorm/tests

go 1.22

require (
	git.example.org/raindrop/clients/go v0.1.0
	git.example.org/raindrop/clients/go-gorm v0.1.0
	github.com/bwmarrin/snowflake v0.3.0
	gorm.io/driver/mysql v1.6.0
	gorm.io/gorm v1.31.2
)

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	github.com/go-sql-driver/mysql v1.8.1 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	golang.org/x/text v0.20.0 // indirect
)

replace git.example.org/raindrop/clients/go => ../../go

replace git.example.org/raindrop/clients/go-gorm => ..
