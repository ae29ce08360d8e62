/**
 * A function that makes a value when it is first called. Formatters and large patterns take milliseconds to make, which
 * would delay the first screen.
 *
 * @template Value
 * @param {() => Value} make
 * @returns {() => Value}
 */
export function lazy(make) {
  /** @type {Value | undefined} */
  let value;
  return () => (value ??= make());
}
