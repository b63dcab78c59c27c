/** The message of failures of the store. */
export const STORE_UNAVAILABLE = 'The store of calls is unavailable; retry later';
