! SPDX-License-Identifier: BSD-3-Clause
!
! examples/spmv/matrix.f90: the matrix of problem.h in Fortran's form. Rows, columns and entries
! count from 1.
module spmv_matrix
  use, intrinsic :: iso_c_binding
  implicit none
  private

  ! The rows of a rank, in CSR.
  type, public :: matrix_t
    integer :: rows = 0
    integer, allocatable :: start(:)                    ! (rows + 1), first entry of each row
    integer(c_long_long), allocatable :: column(:)      ! of each entry, with the new numbers
    integer(c_long_long), allocatable :: original(:)    ! (rows), the numbers of the whole matrix
    double precision, allocatable :: value(:)           ! of each entry
  end type

  public :: matrix_make

  ! struct matrix of problem.h
  type, bind(c) :: matrix_c
    integer(c_int) :: n, rows
    integer(c_long_long) :: first
    type(c_ptr) :: original, start, column, value
  end type

  interface
    type(c_ptr) function make_c(comm, n, path, metis, why) bind(c, name='spmv_matrix_f')
      import
      integer(c_int), value :: comm, n, metis
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), intent(out) :: why
    end function
    subroutine free_c(m) bind(c, name='matrix_free')
      import
      type(c_ptr), value :: m
    end subroutine
    integer(c_size_t) function strlen(text) bind(c)
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! Collective. The matrix of the file `path`, or that on n**3 points if `path` is empty. `why` is
  ! the reason if it failed, and otherwise empty.
  subroutine matrix_make(comm, n, path, metis, m, why)
    integer, intent(in) :: comm, n
    character(len=*), intent(in) :: path
    logical, intent(in) :: metis
    type(matrix_t), intent(out) :: m
    character(len=:), allocatable, intent(out) :: why
    type(matrix_c), pointer :: c
    integer(c_int), pointer :: start(:)
    integer(c_long_long), pointer :: column(:), original(:)
    double precision, pointer :: value(:)
    type(c_ptr) :: made, reason

    why = ''
    made = make_c(comm, n, path // c_null_char, merge(1, 0, metis), reason)
    if (.not. c_associated(made)) then
      why = text_of(reason)
      return
    end if
    call c_f_pointer(made, c)
    call c_f_pointer(c%start, start, [c%rows + 1])
    call c_f_pointer(c%original, original, [c%rows])
    call c_f_pointer(c%column, column, [start(c%rows + 1)])
    call c_f_pointer(c%value, value, [start(c%rows + 1)])
    m%rows = c%rows
    m%start = start + 1
    m%original = original + 1
    m%column = column + 1
    m%value = value
    call free_c(made)
  end subroutine

  function text_of(c) result(text)
    type(c_ptr), intent(in) :: c
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: k

    call c_f_pointer(c, letters, [strlen(c)])
    allocate (character(len=size(letters)) :: text)
    do k = 1, size(letters)
      text(k:k) = letters(k)
    end do
  end function

end module
