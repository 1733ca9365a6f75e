import { expect, it } from 'vitest'
import { aclTypes } from './acl'
import en from './en.json'

it('has a name, help and an example for the value of every type', () => {
  for (const type of aclTypes) {
    expect(en.acl.types[type], type).toBeTruthy()
    expect(en.acl.value.helps[type], type).toBeTruthy()
    expect(en.acl.value.examples[type], type).toBeTruthy()
  }
})
