package raindropgorm_test

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	raindropgorm "git.example.org/raindrop/clients/go-gorm"
)

// The number of an ID.
//
//readme:begin
type Order struct {
	ID       int64  `gorm:"primaryKey;autoIncrement:false;raindrop:order" json:"id,string"`
	Customer string `json:"customer"`
}

//readme:end

// The text of an ID, stored as a number.
//
//readme:begin
type Parcel struct {
	ID    string `gorm:"primaryKey;type:bigint;serializer:raindrop;idPrefix:PCL-;raindrop:parcel"`
	Items []Item
}

type Item struct {
	ID       int64   `gorm:"primaryKey;autoIncrement:false;raindrop:item"`
	ParcelID *string `gorm:"type:bigint;serializer:raindrop;idPrefix:PCL-"`
}

//readme:end

func Example() {
	db := open()

	if err := db.Use(raindropgorm.New(client)); err != nil {
		log.Fatal(err)
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		log.Fatal(err)
	}
	orders := []Order{{Customer: "Ada"}, {Customer: "Emmy"}}
	if err := db.Create(&orders).Error; err != nil { // one call of NextMany
		log.Fatal(err)
	}
	fmt.Println(orders[0].ID < orders[1].ID)
	// Output: true
}

func ExampleSerializer() {
	if err := db.AutoMigrate(&Parcel{}, &Item{}); err != nil {
		log.Fatal(err)
	}
	parcel := Parcel{Items: []Item{{}, {}}}
	if err := db.Create(&parcel).Error; err != nil {
		log.Fatal(err)
	}
	var found Parcel
	if err := db.Preload("Items").Where(&Parcel{ID: parcel.ID}).First(&found).Error; err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(string(text), `{"ID":"PCL-`), len(found.Items))
	// Output: true 2
}

// The snippets of the README are the models and examples above, which run.
func TestTheReadmeHasTheExamples(t *testing.T) {
	source, readme := string(must(os.ReadFile("example_test.go"))), string(must(os.ReadFile("../README.md")))
	var snippets []string
	for _, match := range regexp.MustCompile(`(?ms)^//readme:begin\n(.*?)\n//readme:end$`).FindAllStringSubmatch(source, -1) {
		snippets = append(snippets, match[1])
	}
	for _, match := range regexp.MustCompile(`(?ms)^func Example\w*\(\) \{\n(.*?)^\t// Output:`).FindAllStringSubmatch(source, -1) {
		body := strings.TrimPrefix(match[1], "\tdb := open()\n\n")
		snippets = append(snippets, regexp.MustCompile(`(?m)^\t`).ReplaceAllString(body, ""))
	}
	for _, snippet := range snippets {
		if !strings.Contains(readme, "```go\n"+snippet+"```\n") {
			t.Errorf("README.md lacks:\n%s", snippet)
		}
	}
	if n := strings.Count(readme, "```go\n"); n != 4 || len(snippets) != n {
		t.Errorf("README.md has %d snippets; %d run", n, len(snippets))
	}
}
