package raindropgorm_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	raindrop "git.example.org/raindrop/clients/go"
	raindropgorm "git.example.org/raindrop/clients/go-gorm"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

type Base struct {
	ID uint64 `gorm:"primaryKey;autoIncrement:false;raindrop:user"`
}

type Team struct {
	Base
	Name string
}

// User has what models have: an embedded key, associations, hooks, a second ID, and a unique key.
type User struct {
	Base
	TeamID   uint64
	Team     Team    `gorm:"constraint:-"`
	Ticket   *int64  `gorm:"raindrop:ticket"`
	Email    string  `gorm:"size:100;unique"`
	Parents  []*User `gorm:"many2many:parents"`
	SeenHook uint64  `gorm:"-"`
}

func (u *User) BeforeCreate(*gorm.DB) error {
	u.SeenHook = u.ID
	return nil
}

// Voucher stores the text of its ID.
type Voucher struct {
	ID string `gorm:"primaryKey;size:30;raindrop:parcel"`
}

func migrate(t *testing.T, models ...any) {
	t.Helper()
	check(db.Migrator().DropTable(append([]any{"parents"}, models...)...))
	check(db.AutoMigrate(models...))
}

func TestCreateFillsEmptyFields(t *testing.T) {
	migrate(t, &User{}, &Team{})
	user := User{Email: "a", Team: Team{Name: "t"}, Parents: []*User{{Email: "b", Team: Team{Base: Base{ID: 7}}}}}
	check(db.Create(&user).Error)
	parent := user.Parents[0]
	if user.ID == 0 || user.SeenHook != user.ID || user.TeamID == 0 || user.TeamID != user.Team.ID || user.Ticket == nil ||
		parent.ID == 0 || parent.TeamID != 7 {
		t.Errorf("%+v %+v", user, parent)
	}
	var found User
	check(db.Preload("Parents").First(&found, user.ID).Error)
	if found.Email != "a" || len(found.Parents) != 1 || found.Parents[0].ID != parent.ID {
		t.Errorf("%+v", found)
	}

	// What has an ID keeps it: a later save, and a key of the caller's choice.
	id, ticket := user.ID, *user.Ticket
	check(db.Save(&user).Error)
	own := User{Base: Base{ID: 42}, Email: "c"}
	check(db.Create(&own).Error)
	if user.ID != id || *user.Ticket != ticket || own.ID != 42 {
		t.Errorf("%+v %+v", user, own)
	}

	// A row that exists keeps its key; the model has the one that was not used.
	again := User{Email: "a"}
	check(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&again).Error)
	var count int64
	check(db.Model(&User{}).Where("email = 'a' AND id = ?", id).Count(&count).Error)
	if count != 1 || again.ID == id {
		t.Errorf("%d rows, %+v", count, again)
	}
}

func TestABatchIsFilledByOneCall(t *testing.T) {
	migrate(t, &Order{})
	var waits atomic.Int64
	client := must(raindrop.New([]string{service}, raindrop.Options{Deadline: 20 * time.Second, OnEvent: func(e raindrop.Event) {
		if e.Kind == raindrop.EventWait {
			waits.Add(1)
		}
	}}))
	defer client.Close()
	orders := make([]*Order, 1000)
	for i := range orders {
		orders[i] = &Order{Customer: "x"}
	}
	orders[3].ID = 5
	// Each call of an empty buffer waits once.
	check(open(raindropgorm.New(client)).Create(&orders).Error)
	var ids []int64
	check(db.Model(&Order{}).Order("id").Pluck("id", &ids).Error)
	filled := slices.DeleteFunc(orders, func(o *Order) bool { return o.ID == 5 })
	ascends := slices.IsSortedFunc(filled, func(a, b *Order) int { return int(a.ID - b.ID) })
	if waits.Load() != 1 || len(ids) != 1000 || ids[0] != 5 || !ascends {
		t.Errorf("%d waits, %d rows, first %d, ascending: %v", waits.Load(), len(ids), ids[0], ascends)
	}
	// In several statements, and without a transaction.
	more := make([]Order, 25)
	check(db.Session(&gorm.Session{SkipDefaultTransaction: true}).CreateInBatches(&more, 10).Error)
	if more[24].ID == 0 || more[0].ID == 0 {
		t.Errorf("%+v", more)
	}
}

func TestTextsAndMapsAreFilled(t *testing.T) {
	migrate(t, &Voucher{}, &Order{}, &Item{}, &Parcel{})
	voucher := Voucher{}
	check(db.Create(&voucher).Error)
	check(db.First(&Voucher{}, "id = ?", voucher.ID).Error)
	if !strings.HasPrefix(voucher.ID, "PCL-") {
		t.Errorf("%+v", voucher)
	}

	row := map[string]any{"Customer": "one"}
	check(db.Model(&Order{}).Create(row).Error)
	check(db.Model(&Order{}).Create(&map[string]any{"customer": "two", "ID": int64(2)}).Error)
	check(db.Model(&Order{}).Create([]map[string]any{{"customer": "three", "ID": 0}, {"customer": "four"}}).Error)
	check(db.Model(&Parcel{}).Create(&[]map[string]any{{}}).Error)
	check(db.Table("orders").Create(map[string]any{"id": 9, "customer": "no model"}).Error)
	var orders []Order
	check(db.Order("id").Find(&orders).Error)
	var parcel Parcel
	check(db.First(&parcel).Error)
	if len(orders) != 5 || orders[0].ID != 2 || orders[1].ID != 9 || row["id"] != orders[2].ID || !strings.HasPrefix(parcel.ID, "PCL-") {
		t.Errorf("%+v %v %+v", orders, row, parcel)
	}
}

// Keyed has a key of any type.
type Keyed[T any] struct {
	ID T `gorm:"primaryKey;autoIncrement:false;raindrop:keyed"`
}

func (Keyed[T]) TableName() string { return "keyed" }

type Named int64

// Octets has 16 bytes, but of a type to which Go converts no [16]byte.
type Octets [16]octet

type octet byte

func (o Octets) Value() (driver.Value, error) { return fmt.Sprintf("%x", o), nil }

func TestTypesThatHoldIDsAreFilled(t *testing.T) {
	for _, one := range []func(*testing.T){
		fillsKeys[int64], fillsKeys[uint64], fillsKeys[int], fillsKeys[uint], fillsKeys[Named], fillsKeys[*Named],
		fillsKeys[*uint64], fillsKeys[sql.NullInt64], fillsKeys[*sql.NullInt64],
	} {
		one(t)
	}
}

func fillsKeys[T any](t *testing.T) {
	migrate(t, &Keyed[int64]{})
	rows := make([]Keyed[T], 2)
	check(db.Create(&rows).Error)
	check(db.Model(&Keyed[T]{}).Create(map[string]any{}).Error)
	var found []Keyed[T]
	check(db.Order("id").Find(&found).Error)
	var ids []int64
	check(db.Table("keyed").Order("id").Pluck("id", &ids).Error)
	if len(found) != 3 || !reflect.DeepEqual(found[:2], rows) || ids[0] < 1<<53 || ids[0] >= ids[1] || ids[1] >= ids[2] {
		t.Errorf("%T: %v %v", rows, ids, rows)
	}
}

func TestWhatCannotBeFilledIsNotCreated(t *testing.T) {
	type Counted struct {
		ID int64 `gorm:"raindrop:counted"`
	}
	type Nameless struct {
		ID int64 `gorm:"primaryKey;autoIncrement:false;raindrop"`
	}
	tables := []any{&Counted{}, &Nameless{}, &Order{}, &Voucher{}, &Keyed[int64]{}}
	migrate(t, tables...)
	// A short type would cut an ID, and a float would round it.
	const unfit = ", which cannot hold every ID: use int64, uint64, string, sql.NullInt64, a UUID of [16]byte or a pointer to one of them"
	const nilMap = "raindrop: unsupported data: Create needs a map that is not nil to set Order.ID"
	const noTable = `: Table not set, please set it like: db.Model(&user) or db.Table("users")`
	var none map[string]any
	for _, one := range []struct {
		model, row any
		wants      string
	}{
		{nil, &Counted{}, "raindrop: Counted.ID needs autoIncrement:false in its tag"},
		{nil, &Nameless{}, "raindrop: the tag of Nameless.ID names no code: write raindrop:CODE"},
		{nil, Order{}, "raindrop: " + gorm.ErrInvalidValue.Error() + ": Create needs a pointer to set Order.ID"},
		{nil, (*Order)(nil), gorm.ErrInvalidValue.Error()},
		{nil, []*Order{nil}, "slice data #0 is invalid: " + gorm.ErrInvalidData.Error()},
		{nil, []Order{}, gorm.ErrEmptySlice.Error()},
		{nil, []map[string]any{}, "unsupported data type: []" + noTable},
		{nil, none, "unsupported data type: map[]" + noTable},

		{&Order{}, []map[string]any{}, gorm.ErrEmptySlice.Error()},
		{&Order{}, none, nilMap},
		{&Order{}, &none, nilMap},
		{&Order{}, []map[string]any{none}, nilMap},
		{&Order{}, &[]map[string]any{{"customer": "x"}, none}, nilMap},
		{&Order{}, (*map[string]any)(nil), gorm.ErrInvalidValue.Error()},
		{&Order{}, (*[]map[string]any)(nil), gorm.ErrInvalidValue.Error()},

		{nil, &Keyed[int8]{}, "raindrop: Keyed[int8].ID is of type int8" + unfit},
		{nil, &Keyed[int32]{}, "raindrop: Keyed[int32].ID is of type int32" + unfit},
		{nil, &Keyed[*int32]{}, "raindrop: Keyed[*int32].ID is of type *int32" + unfit},
		{nil, &[]Keyed[uint32]{{}, {}}, "raindrop: Keyed[uint32].ID is of type uint32" + unfit},
		{nil, &Keyed[float64]{}, "raindrop: Keyed[float64].ID is of type float64" + unfit},
		{nil, &Keyed[bool]{}, "raindrop: Keyed[bool].ID is of type bool" + unfit},
		{nil, &Keyed[[]byte]{}, "raindrop: Keyed[[]uint8].ID is of type []uint8" + unfit},
		{nil, &Keyed[Octets]{}, "raindrop: Keyed[git.example.org/raindrop/clients/go-gorm/tests_test.Octets].ID is of type raindropgorm_test.Octets" + unfit},
		{nil, &Keyed[*Octets]{}, "raindrop: Keyed[*git.example.org/raindrop/clients/go-gorm/tests_test.Octets].ID is of type *raindropgorm_test.Octets" + unfit},
		{nil, &Keyed[*[8]byte]{}, "raindrop: Keyed[*[8]uint8].ID is of type *[8]uint8" + unfit},
		{nil, &Keyed[time.Time]{}, "raindrop: Keyed[time.Time].ID is of type time.Time" + unfit},
		{nil, &Keyed[sql.NullFloat64]{}, "raindrop: Keyed[database/sql.NullFloat64].ID is of type sql.NullFloat64" + unfit},
		{&Keyed[int32]{}, map[string]any{}, "raindrop: Keyed[int32].ID is of type int32" + unfit},
	} {
		tx := db
		if one.model != nil {
			tx = db.Model(one.model)
		}
		if err := tx.Create(one.row).Error; err == nil || err.Error() != one.wants {
			t.Errorf("%T: %v; wants %s", one.row, err, one.wants)
		}
	}
	if err := db.Model(&Order{}).Create(none).Error; !errors.Is(err, gorm.ErrInvalidData) {
		t.Error(err)
	}

	// The client's error reaches the caller, whose context is the deadline.
	unreachable := must(raindrop.New([]string{"http://127.0.0.1:1"}, raindrop.Options{}))
	defer unreachable.Close()
	own := open(raindropgorm.New(unreachable))
	var e *raindrop.Error
	if err := own.Create(&[]Order{{}, {}}).Error; !errors.As(err, &e) || e.Kind != raindrop.KindTransport {
		t.Error(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := own.WithContext(over).Create(&Voucher{}).Error; !errors.As(err, &e) {
		t.Error(err)
	}
	for _, table := range tables {
		var count int64
		check(db.Model(table).Count(&count).Error)
		if count != 0 {
			t.Errorf("%T: %d rows", table, count)
		}
	}
}

func TestTheSerializerStoresTextsAsNumbers(t *testing.T) {
	migrate(t, &Parcel{}, &Item{})
	id := "PCL-123"
	check(db.Create(&Parcel{ID: id, Items: []Item{{}}}).Error)
	check(db.Create(&Item{}).Error)

	var numbers []int64
	check(db.Raw("SELECT id FROM parcels").Scan(&numbers).Error)
	var orphans int64
	check(db.Model(&Item{}).Where("parcel_id IS NULL").Count(&orphans).Error)
	if !slices.Equal(numbers, []int64{123}) || orphans != 1 {
		t.Errorf("%v %d", numbers, orphans)
	}
	var parcel Parcel
	check(db.Preload("Items").First(&parcel).Error)
	var items []Item
	check(db.Where(&Item{ParcelID: &id}).Find(&items).Error)
	var orphan Item
	check(db.Where("parcel_id IS NULL").First(&orphan).Error)
	if parcel.ID != id || len(parcel.Items) != 1 || len(items) != 1 || *items[0].ParcelID != id || orphan.ParcelID != nil {
		t.Errorf("%+v %+v %+v", parcel, items, orphan)
	}
	check(db.Delete(&parcel.Items[0]).Error)
	if result := db.Delete(&parcel); result.Error != nil || result.RowsAffected != 1 {
		t.Errorf("%+v", result)
	}

	for _, wrong := range []string{"123", "PCL-", "PCL-0123", "PCL-+1", "PCL--1", "PCL-9223372036854775808", "ORD-1", " PCL-1"} {
		if err := db.Create(&Parcel{ID: wrong}).Error; err == nil || !strings.Contains(err.Error(), `must be "PCL-" and the decimal digits`) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	check(db.Exec("INSERT INTO parcels (id) VALUES (-1)").Error)
	if err := db.First(&Parcel{}).Error; err == nil || !strings.Contains(err.Error(), "has -1, which is no ID") {
		t.Error(err)
	}
}
