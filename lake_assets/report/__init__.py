"""What the landing zone has and what the lake has, partition by partition: states, a heat map, a page."""
