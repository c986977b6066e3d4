"""Where values lie: places, one arena, footprints."""
