"""The generated transactions: of 26 columns, with bad ones that the rules find."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dev.retail import RULES, Retail

CHAIN = Retail(stores=20, regions=("NW", "NE", "MW", "SE", "SW"), days=3, seed=1)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.concat_tables(CHAIN.blocks())


def test_the_given_number_of_transactions_has_26_columns_and_bad_rows_of_each_rule(table: pa.Table) -> None:
    assert table.num_rows == CHAIN.rows == 20 * 3 * 400
    assert len(table.schema) == 26
    assert len(pc.unique(table["transaction_id"])) == table.num_rows
    assert set(table["region"].to_pylist()) == set(CHAIN.regions)
    places = table.group_by(["store_id", "region", "city", "state", "store_format"]).aggregate([])
    assert places.num_rows == len(pc.unique(table["store_id"])) == 20
    for name in RULES:  # each is broken by some rows
        assert 0.001 < pc.mean(table[name].cast(pa.float64())).as_py() < 0.02, name


def test_the_flags_are_what_the_rules_say_of_each_row(table: pa.Table) -> None:
    for row in table.slice(0, 8000).to_pylist():
        items = json.loads(row["items"])
        flags = {
            "is_total_wrong": abs(row["total"] - row["subtotal"] - row["tax"]) > 0.015,
            "is_negative": row["total"] < 0,
            "is_count_wrong": row["item_count"] != sum(item["qty"] for item in items),
            "is_high_value": row["total"] > 1000,
            "is_after_hours": not 6 <= row["timestamp"].hour < 22,
            "is_payment_unknown": row["payment_method"] is None,
        }
        assert {name: row[name] for name in RULES} == flags
        score = max(0, 1 - sum(cost for name, cost in RULES.items() if flags[name]))
        assert row["quality_score"] == pytest.approx(score, abs=0.006)
        word = "clean" if not any(flags.values()) else "review" if row["quality_score"] < 0.7 else "warning"
        assert row["quality"] == word
        assert (row["hour"], row["date"]) == (row["timestamp"].hour, row["timestamp"].date())
        assert row["distinct_items"] == len({item["sku"] for item in items})
        assert row["day_of_week"] == f"{row['timestamp']:%A}"
        if word == "clean":
            assert row["subtotal"] == pytest.approx(sum(item["qty"] * item["price"] for item in items), abs=0.006)
            assert row["total"] == pytest.approx(row["subtotal"] * 1.08, abs=0.011)
