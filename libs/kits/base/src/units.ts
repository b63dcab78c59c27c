/** Duration in milliseconds. Names of such values end in `Ms`. */
export type Milliseconds = number;
/** Instant in milliseconds since the Unix epoch. Names of such values end in `At`. */
export type EpochMs = number;
