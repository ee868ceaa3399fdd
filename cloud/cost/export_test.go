package cost

// StatusBy is Status with another book.
var StatusBy = statusBy
