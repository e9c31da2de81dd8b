module git.example.org/raindrop/clients/go

go 1.22
