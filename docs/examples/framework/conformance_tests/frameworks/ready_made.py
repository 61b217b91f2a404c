READY_MADE["tinynet"] = "TinynetSubject"
