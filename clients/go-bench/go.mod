module git.example.org/raindrop/clients/go-bench

go 1.22

require (
	git.example.org/raindrop/clients/go v0.0.0
	github.com/bwmarrin/snowflake v0.3.0
	github.com/sony/sonyflake v1.2.0
)

replace git.example.org/raindrop/clients/go => ../go
