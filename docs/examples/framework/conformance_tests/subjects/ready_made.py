READY_MADE["tinynet"] = "tinynet:TinynetSubject"
