package raindropgorm_test

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// UUID is stored and read as those of the usual packages.
type UUID [16]byte

func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func (u UUID) Value() (driver.Value, error) { return u.String(), nil }

func (u *UUID) Scan(value any) error {
	text, err := hex.DecodeString(strings.ReplaceAll(fmt.Sprintf("%s", value), "-", ""))
	copy(u[:], text)
	return err
}

type Shipment struct {
	ID      UUID   `gorm:"primaryKey;type:uuid;raindrop:shipment"`
	Text    string `gorm:"type:uuid;raindrop:parcel"`
	Pointer *UUID  `gorm:"type:uuid;raindrop:shipment"`
	Place   int
}

func TestUUIDsSortInTheDatabaseAsTheyWereDrawn(t *testing.T) {
	migrate(t, &Shipment{})
	created := make([]Shipment, 500)
	for i := range created {
		created[i].Place = i
	}
	check(db.Create(&created).Error)
	for _, column := range []string{"id", "text", "pointer"} {
		var found []Shipment
		check(db.Order(column).Find(&found).Error)
		if !reflect.DeepEqual(found, created) {
			t.Errorf("by %s: %+v, not %+v", column, found[:2], created[:2])
		}
	}
	if version := created[0].ID[6] >> 4; version != 7 || created[0].Text[14] != '7' || created[0].Pointer[6]>>4 != 7 {
		t.Errorf("%+v", created[0])
	}
	own := Shipment{ID: UUID{15: 1}, Text: "00000000-0000-0000-0000-000000000002", Pointer: &UUID{15: 3}}
	kept := own
	check(db.Create(&own).Error)
	if !reflect.DeepEqual(own, kept) {
		t.Errorf("%+v", own)
	}
	row := map[string]any{"Place": 7000}
	check(db.Model(&Shipment{}).Create(row).Error)
	var found Shipment
	check(db.Where("place = 7000").First(&found).Error)
	if found.ID != row["id"] || found.Text != row["text"] || *found.Pointer != row["pointer"] {
		t.Errorf("%+v, not %+v", found, row)
	}
}
