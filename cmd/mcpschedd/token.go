package main

import (
	"crypto/rand"
	"fmt"
	"strings"

	"mcpschedd/internal/state"
)

// tokenFile holds the bearer token for HTTP, readable by this user only.
const tokenFile = "http-token"

// token returns the bearer token that HTTP clients must send, and creates it at first use.
func token(dir state.Dir) (string, error) {
	data, err := readOrCreate(dir, tokenFile, func() []byte { return []byte(rand.Text() + "\n") })
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir.Path(tokenFile), err)
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < 16 {
		return "", hinted{fmt.Errorf("%s: want a token of at least 16 characters", dir.Path(tokenFile)), "delete the file to create a new token"}
	}
	return secret, nil
}
