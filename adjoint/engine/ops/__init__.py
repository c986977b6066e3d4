"""Every operation, by subject: its record and its public function side by side."""
