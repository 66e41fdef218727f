// An object's storage, as it is. counted.mjs is put in its place where operations are counted.
export const storage = (context) => context.storage;
