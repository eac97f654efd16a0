{{ config(materialized="table") }}

SELECT region, date, sum(total) AS revenue
FROM {{ source("shop", "sales") }}
GROUP BY ALL
