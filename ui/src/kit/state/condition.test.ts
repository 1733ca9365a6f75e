import { expect, it } from 'vitest'
import type { Component } from '../../api/types'
import { conditionOf, isTrouble, reasonOf } from './condition'

const component = (part: Partial<Component>) =>
  ({ name: 'dns', state: 'live', daemon: 'running', last_error: '', ...part }) as Component

it('calls a dead daemon down, whatever is stored, and a disabled one off', () => {
  expect(conditionOf(component({}))).toBe('live')
  expect(conditionOf(component({ state: 'degraded', daemon: 'down' }))).toBe('down')
  expect(conditionOf(component({ daemon: 'down' }))).toBe('down')
  expect(conditionOf(component({ daemon: 'off' }))).toBe('off')
  expect(conditionOf(component({ state: 'degraded', daemon: 'off' }))).toBe('degraded')
  expect(conditionOf(component({ state: 'not_installed', daemon: 'down' }))).toBe('not_installed')
  expect(conditionOf(component({ name: 'network', daemon: '' }))).toBe('live')
})

it('does not count live or off as trouble', () => {
  expect([component({}), component({ daemon: 'off' })].filter(isTrouble)).toEqual([])
  expect(isTrouble(component({ daemon: 'down' }))).toBe(true)
  expect(isTrouble(component({ state: 'pending' }))).toBe(true)
})

it('says what does not work before it says why', () => {
  const last_error = 'UDP 53 on 10.10.0.1 is used by python3 (pid 29958).'
  expect(reasonOf(component({ state: 'degraded', daemon: 'down', last_error }))).toBe(
    `DNS does not answer. Clients cannot resolve names. ${last_error}`,
  )
  expect(reasonOf(component({ name: 'other', daemon: 'down' }))).toBe('It is not running.')
  expect(reasonOf(component({ state: 'degraded', last_error }))).toBe(last_error)
  expect(reasonOf(component({ state: 'pending' }))).toBe('A saved change is being applied.')
})
