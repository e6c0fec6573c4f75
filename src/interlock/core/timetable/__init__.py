"""The timetable: schedules, their occurrences, and those that wait for each other."""
