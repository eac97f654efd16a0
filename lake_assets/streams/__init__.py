"""Open streams: the calendar of their partitions, their landing zone, and what is pending."""
