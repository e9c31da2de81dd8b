module git.example.org/raindrop/clients/go-gorm

go 1.22

require (
	git.example.org/raindrop/clients/go v0.1.0
	gorm.io/gorm v1.31.2
)

require (
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	golang.org/x/text v0.20.0 // indirect
)

replace git.example.org/raindrop/clients/go => ../go
