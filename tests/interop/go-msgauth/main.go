// Verifies the DKIM signatures of a message with go-msgauth, and of copies of it in which one byte differs.
//
//	verify MESSAGE RECORDS POSITIONS
//
// RECORDS is JSON, names of TXT records with their texts; POSITIONS is JSON, an array of places in MESSAGE. Printed is JSON: how
// many signatures pass, and at which places a changed byte left one that passes.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/emersion/go-msgauth/dkim"
)

type result struct {
	Passed int      `json:"passed"`
	Failed []string `json:"failed"`
	Missed []int    `json:"missed"`
}

func read(path string, into any) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func main() {
	message, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var records map[string]string
	var positions []int
	read(os.Args[2], &records)
	read(os.Args[3], &positions)
	options := &dkim.VerifyOptions{LookupTXT: func(domain string) ([]string, error) {
		return []string{records[strings.TrimSuffix(domain, ".")]}, nil
	}}
	found := result{Failed: []string{}, Missed: []int{}}
	verifications, err := dkim.VerifyWithOptions(bytes.NewReader(message), options)
	if err != nil {
		found.Failed = append(found.Failed, err.Error())
	}
	for _, verification := range verifications {
		if verification.Err == nil {
			found.Passed++
		} else {
			found.Failed = append(found.Failed, verification.Err.Error())
		}
	}
	for _, position := range positions {
		changed := bytes.Clone(message)
		changed[position] ^= 1
		// A message that cannot be read at all does not pass either.
		verifications, _ := dkim.VerifyWithOptions(bytes.NewReader(changed), options)
		for _, verification := range verifications {
			if verification.Err == nil {
				found.Missed = append(found.Missed, position)
				break
			}
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}
