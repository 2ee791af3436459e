"""Layer 5: functions of values, written once, through `bind` alone."""
