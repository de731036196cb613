module verify

go 1.20

require github.com/emersion/go-msgauth v0.7.0

require golang.org/x/crypto v0.31.0 // indirect
